//go:build linux

package agent

import (
	"errors"
	"strings"
)

// execution is what the arguments of ssh request.
type execution struct {
	host    string
	command []byte
	// ignoresInput is true if the command gets no input (-n).
	ignoresInput bool
}

// Options of ssh(1).
const (
	optionsWithValue    = "BbcDEeFIiJLlmOoPpQRSWw"
	optionsWithoutValue = "1246AaCfGgKkMNnqsTtVvXxYy"
)

var errUsage = errors.New("usage: ssh [options] [user@]host command [argument ...]")

// parseExecution parses the arguments of ssh. Options are accepted before and after the host, like OpenSSH
// does. All options but -n are ignored: the port, the user and the keys follow from the gang. As with ssh, the
// words of the command are joined by spaces.
func parseExecution(args []string) (execution, error) {
	var e execution
	args, err := e.skipOptions(args)
	if err != nil || len(args) == 0 {
		return execution{}, errors.Join(err, errUsage)
	}
	e.host = args[0][strings.LastIndexByte(args[0], '@')+1:]
	if args, err = e.skipOptions(args[1:]); err != nil {
		return execution{}, errors.Join(err, errUsage)
	}
	e.command = []byte(strings.Join(args, " "))
	if e.host == "" || len(e.command) == 0 {
		return execution{}, errUsage
	}
	return e, nil
}

// skipOptions returns the arguments after the options.
func (e *execution) skipOptions(args []string) ([]string, error) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		option := args[0]
		args = args[1:]
		if option == "--" {
			return args, nil
		}
		for i := 1; i < len(option); i++ {
			switch name := option[i]; {
			case strings.IndexByte(optionsWithoutValue, name) >= 0:
				e.ignoresInput = e.ignoresInput || name == 'n'
				continue
			case strings.IndexByte(optionsWithValue, name) < 0:
				return nil, errors.New("unknown option -" + string(name))
			case i == len(option)-1 && len(args) == 0:
				return nil, errors.New("option -" + string(name) + " needs a value")
			case i == len(option)-1:
				args = args[1:]
			}
			break // the rest of the argument is the value
		}
	}
	return args, nil
}

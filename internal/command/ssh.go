package command

import (
	"slices"
	"strconv"
	"strings"
)

// option is an option of one letter. The value of an option without a value is unknown.
type option struct {
	letter byte
	value  Argument
}

// parseLetters returns the options of one letter before the first operand, like getopt(3). withValue contains the
// letters of options with a value.
func parseLetters(args []Argument, withValue string) []option {
	var options []option
	for i := 0; i < len(args) && strings.HasPrefix(args[i].Text, "-"); i++ {
		letters := args[i].Text[1:]
		for letters != "" {
			o := option{letter: letters[0]}
			letters = letters[1:]
			switch {
			case !strings.Contains(withValue, string(o.letter)):
			case letters != "":
				o.value, letters = Argument{Text: letters, Known: args[i].Known}, ""
			case i+1 < len(args):
				i++
				o.value = args[i]
			}
			options = append(options, o)
		}
	}
	return options
}

// SSHD is a call of an SSH server.
type SSHD struct {
	// Config and Port are the values of -f and -p. They are empty if they are absent or unknown.
	Config, Port string
	// InBackground is true if the program starts the server and exits.
	InBackground bool
}

// servicesOfSSHD are the calls that start the server as a service; the third is /etc/init.d/ssh start.
var servicesOfSSHD = []string{
	"service ssh start", "service sshd start", "ssh start", "systemctl start ssh", "systemctl start sshd",
	"rc-service ssh start", "rc-service sshd start",
}

// SSHD returns the program as a call of an SSH server. It returns false for other programs.
func (p Program) SSHD() (SSHD, bool) {
	if slices.Contains(servicesOfSSHD, p.String()) {
		return SSHD{InBackground: true}, true
	}
	if p.Name != "sshd" {
		return SSHD{}, false
	}
	s := SSHD{InBackground: !slices.ContainsFunc(p.Args, func(a Argument) bool { return !a.Known })}
	for _, o := range parseLetters(p.Args, "CEbcfghkopu") { // sshd(8)
		switch {
		case strings.Contains("Ddit", string(o.letter)):
			s.InBackground = false
		case o.letter == 'f' && o.value.Known:
			s.Config = o.value.Text
		case o.letter == 'p' && o.value.Known:
			s.Port = o.value.Text
		}
	}
	return s, true
}

// FindSSHPort returns the port that a program or a launcher passes to ssh. It is empty if it is unknown or not set.
func (ls Launchers) FindSSHPort(p Program) string {
	if p.Name == "ssh" {
		return findSSHPort(p.Args)
	}
	launch, _ := ls.Find(p)
	for i, a := range launch.Args[:max(0, len(launch.Args)-1)] {
		if ContainsFlag(launch.SSHParameters, a.Text) {
			return ParseSSHPort(launch.Args[i+1].Text)
		}
	}
	flags, _ := launch.Flags()
	for name := range strings.FieldsSeq(launch.SSHPortFlags) {
		if port := flags[name].Text; port != "" {
			return port
		}
	}
	return ""
}

// ParseSSHPort returns the port in options of ssh that are separated by spaces. It is empty if it is not set.
func ParseSSHPort(options string) string {
	var args []Argument
	for word := range strings.FieldsSeq(options) {
		args = append(args, Argument{Text: word, Known: true})
	}
	return findSSHPort(args)
}

func findSSHPort(args []Argument) string {
	for _, o := range parseLetters(args, "BbcDEeFIiJLlmOopQRSWw") { // ssh(1)
		port := o.value.Text
		if o.letter == 'o' {
			name, value, _ := strings.Cut(strings.Replace(port, " ", "=", 1), "=")
			if port = value; !strings.EqualFold(name, "port") {
				continue
			}
		} else if o.letter != 'p' {
			continue
		}
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return port
		}
	}
	return ""
}

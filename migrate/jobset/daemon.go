package jobset

import (
	"path"
	"strings"

	"rollcall.training/migrate/ledger"
)

// daemon takes the command away by which a worker ran sshd: a worker without a command
// runs one that knows the gang's keys and port.
func (s *Set) daemon(j *Job) {
	c := j.trainer()
	if c == nil || j.Role != "worker" || !launches(s.Blueprint.Framework) || len(s.roles()) < 2 {
		return
	}
	words := append(append([]string{}, c.Command...), c.Args...)
	switch {
	case len(words) > 0 && path.Base(words[0]) == "sshd":
		c.Command, c.Args = nil, nil
		j.pod().Remark(ledger.Changed, "sshd of the gang", "a worker without a command runs sshd with the gang's own keys, as any user", "")
	case strings.Contains(strings.Join(words, " "), "sshd"):
		j.pod().Remark(ledger.Changed, "", "the worker's own command runs sshd, which knows neither the keys of the gang nor its port",
			"leave the command out: a worker without one runs sshd with both")
	}
}

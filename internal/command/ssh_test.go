package command_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/command"
)

func TestSSHD(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       command.SSHD
		other      bool
	}{
		{name: "in the foreground", line: "/usr/sbin/sshd -De"},
		{name: "in the background", line: "sshd -e", want: command.SSHD{InBackground: true}},
		{name: "options with separate values", line: "sshd -D -f /a -p 22", want: command.SSHD{Config: "/a", Port: "22"}},
		{name: "a value in a group of options", line: "sshd -Dep22", want: command.SSHD{Port: "22"}},
		{name: "a letter in a value is not an option", line: "sshd -fDdit",
			want: command.SSHD{Config: "Ddit", InBackground: true}},
		{name: "unknown options", line: "sshd $OPTIONS"},
		{name: "an unknown port", line: "sshd -D -p $PORT"},
		{name: "a value is missing", line: "sshd -D -p"},
		{name: "a service", line: "service ssh start", want: command.SSHD{InBackground: true}},
		{name: "an init script", line: "/etc/init.d/ssh start", want: command.SSHD{InBackground: true}},
		{name: "a client", line: "ssh host", other: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseScript(c.line).Programs[0].SSHD()
			if diff := cmp.Diff(c.want, got); diff != "" || ok == c.other {
				t.Errorf("sshd: %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestSSHPort(t *testing.T) {
	for line, want := range map[string]string{
		"ssh -i /key -p 22 host true":                      "22",
		"ssh -p22 host":                                    "22",
		"ssh -vp 22 host":                                  "22",
		"ssh -o LogLevel=ERROR -o Port=2022 host":          "2022",
		"ssh -o 'port 2022' host":                          "2022",
		"ssh -p $PORT host":                                "",
		"ssh host mkdir -p 22":                             "",
		"ssh -oPort=x host":                                "",
		"mpirun -mca plm_rsh_args '-q -p 22' ./a":          "22",
		"orterun --mca plm_ssh_args '-o Port=22' ./a":      "22",
		"mpirun -mca plm_rsh_args '-o LogLevel=ERROR' ./a": "",
		"mpirun ./a -mca plm_rsh_args":                     "",
		"horovodrun -np 8 -p 12345 a.py":                   "12345",
		"horovodrun --ssh-port=12345 a.py":                 "12345",
		"horovodrun -np 8 a.py -p 12345":                   "",
		"torchrun -p 22 a.py":                              "",
	} {
		if got := launchers.FindSSHPort(parseScript(line).Programs[0]); got != want {
			t.Errorf("%s: the port is %q, want %q", line, got, want)
		}
	}
}

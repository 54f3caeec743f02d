package ir_test

import (
	"strings"
	"testing"

	"rollcall.training/internal/migrate/ir"
)

func TestIsIdleCommand(t *testing.T) {
	tests := []struct {
		name  string
		words string // separated by |
		want  bool
	}{
		{name: "command of training-operator", words: "sleep|365d", want: true},
		{name: "command of mpi-operator", words: "/usr/sbin/sshd|-De", want: true},
		{name: "sshd with another configuration", words: "/usr/sbin/sshd|-De|-f|/home/mpiuser/.sshd_config", want: true},
		{name: "sshd on an explicit port", words: "/usr/sbin/sshd|-D|-p|2222", want: true},
		{name: "shell that waits", words: "sh|-c|sleep infinity", want: true},
		{name: "shell with an endless loop", words: "/bin/bash|-c|--|while true; do sleep 30; done;", want: true},
		{name: "tail of nothing", words: "tail|-f|/dev/null", want: true},
		{name: "tail of a log", words: "tail|-f|/var/log/train", want: false},
		{
			name: "preparations of sshd", want: true,
			words: "bash|-c|mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -D",
		},
		{name: "sshd as a service", words: "sh|-c|service ssh start; sleep infinity", want: true},
		{name: "sshd as a service of Alpine", words: "sh|-c|rc-service sshd start; sleep infinity", want: true},
		{name: "several lines", words: "sh|-ec|/etc/init.d/ssh start\nsleep 365d", want: true},
		{name: "options of the shell", words: "sh|-c|set -e\nsleep 365d", want: true},
		{name: "work before waiting", words: "sh|-c|nvidia-smi -pm 1; sleep infinity", want: false},
		{name: "script with sshd as argument", words: "/entrypoint.sh|/usr/sbin/sshd|-De", want: false},
		{name: "shell with a script file", words: "bash|run.sh", want: false},
		{name: "shell without arguments", words: "sh", want: false},
		{name: "shell with -c without a script", words: "sh|-c", want: false},
		{name: "program", words: "python|train.py", want: false},
		{name: "empty word", words: "", want: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ir.IsIdleCommand(strings.Split(tt.words, "|")); got != tt.want {
				t.Errorf("IsIdleCommand(%q) = %v, want %v", tt.words, got, tt.want)
			}
		})
	}
}

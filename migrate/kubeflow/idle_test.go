package kubeflow

import (
	"strings"
	"testing"
)

func TestIdle(t *testing.T) {
	tests := []struct {
		reason string
		words  string // separated by |
		want   bool
	}{
		{"the operators' own", "sleep|365d", true},
		{"mpi-operator's", "/usr/sbin/sshd|-De", true},
		{"another configuration", "/usr/sbin/sshd|-De|-f|/home/mpiuser/.sshd_config", true},
		{"a shell that waits", "sh|-c|sleep infinity", true},
		{"for ever", "/bin/bash|-c|--|while true; do sleep 30; done;", true},
		{"tail", "tail|-f|/dev/null", true},
		{"tail of a log is work", "tail|-f|/var/log/train", false},
		{"preparations of sshd", "bash|-c|mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -D", true},
		{"sshd as a service", "sh|-c|service ssh start; sleep infinity", true},
		{"several lines", "sh|-ec|/etc/init.d/ssh start\nsleep 365d", true},
		{"work before it", "sh|-c|nvidia-smi -pm 1; sleep infinity", false},
		{"a script", "/entrypoint.sh|/usr/sbin/sshd|-De", false},
		{"a shell with a script file", "bash|run.sh", false},
		{"a shell without anything", "sh", false},
		{"-c without anything", "sh|-c", false},
		{"a program", "python|train.py", false},
		{"no program", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := idle(strings.Split(tt.words, "|")); got != tt.want {
				t.Errorf("%q: %v, want %v", tt.words, got, tt.want)
			}
		})
	}
}

package command

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// TestKnownLaunchers checks that admission finds the training container by every launcher of this package.
// Package gang has its own table, because it imports no other package and reads only the words of a command.
func TestKnownLaunchers(t *testing.T) {
	for _, l := range launchers {
		var commands [][]string
		for _, program := range l.programs {
			commands = append(commands, []string{program, l.subcommand, "train.py"})
		}
		for _, module := range l.modules {
			commands = append(commands, []string{"python", "-m", module, "train.py"})
		}
		for _, words := range commands {
			if gang.FindLauncher(&corev1.Container{Command: words}) == "" {
				t.Errorf("gang.FindLauncher does not find %s in %q", l.name, words)
			}
		}
	}
}

package ssh_test

import (
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
)

// shellCommands are the commands of the scripts that are part of the shell.
var shellCommands = []string{
	"[", ":", "command", "echo", "exec", "exit", "export", "print_hosts", "printf", "read", "report", "set", "trap",
	"umask", "wait",
}

// TestRequiredPrograms verifies that the plan lists exactly the programs that the injected scripts run.
func TestRequiredPrograms(t *testing.T) {
	launcher, single := newLauncherGang(2), newLauncherGang(2)
	single.Members = single.Members[:1]
	worker := launcher
	worker.Role, worker.WorkloadName = "worker", "train-worker"
	var listed, needed []string // of all cases
	for name, c := range map[string]struct {
		gang gang.Gang
		want []string // in addition to the programs of the scripts
		not  []string
	}{
		"a launcher connects to workers": {
			gang: launcher, want: []string{"ssh", "ssh-keyscan"}, not: []string{"sshd"},
		},
		"a worker accepts connections": {
			gang: worker, want: []string{"sshd"}, not: []string{"ssh", "ssh-keyscan"},
		},
		"a launcher without workers needs no ssh": {
			gang: single, not: []string{"ssh", "ssh-keyscan", "sshd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := ssh.Plan(c.gang, ssh.Options{})
			var declared []string
			for _, program := range p.Programs {
				declared = append(declared, program.Name)
				if program.Package == "" || program.Absence == "" {
					t.Errorf("program %+v, want a package and a consequence", program)
				}
			}
			listed, needed = append(listed, declared...), append(needed, c.want...)
			for _, container := range p.InitContainers {
				called := listCommands(t, container.Command[2])
				needed = append(needed, called...)
				for _, program := range called {
					if !slices.Contains(declared, program) {
						t.Errorf("the container %s runs %s, which the plan does not list", container.Name, program)
					}
				}
			}
			for _, program := range c.want {
				if !slices.Contains(declared, program) {
					t.Errorf("programs %q, want %s", declared, program)
				}
			}
			for _, program := range c.not {
				if slices.Contains(declared, program) {
					t.Errorf("programs %q, do not want %s", declared, program)
				}
			}
		})
	}
	for _, program := range listed {
		if program != "sh" && !slices.Contains(needed, program) {
			t.Errorf("the plan lists %s, which no script runs", program)
		}
	}
}

// listCommands returns the commands of a script that are not part of the shell.
func listCommands(t *testing.T, script string) []string {
	t.Helper()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(script), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if name := call.Args[0].Lit(); name != "" && !slices.Contains(shellCommands, name) {
			names = append(names, name)
		}
		return true
	})
	if len(names) == 0 {
		t.Fatal("the script has no commands")
	}
	return names
}

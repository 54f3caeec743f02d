package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/internal/testing/golden"
)

// pagesWithOutput are the pages whose commands without a cluster are run. The end-to-end tests run the others.
var pagesWithOutput = []string{
	"README.md", "docs/tutorials/first-gang.md",
	"docs/tasks/check-manifests.md", "docs/tasks/label-an-existing-job.md", "docs/tasks/run-an-elastic-gang.md",
	"docs/tasks/run-on-spot-nodes.md", "docs/tasks/run-several-workloads.md", "docs/tasks/see-a-gang.md",
	"docs/tasks/use-gpus.md", "docs/tasks/configure-restarts.md", "docs/tasks/limit-gangs.md",
	"docs/tasks/provide-data.md", "docs/tasks/migrate/fleet.md", "docs/tasks/install-the-command.md",
}

// commandsWithoutCluster are the commands whose output depends only on files.
var commandsWithoutCluster = []string{"vet", "inject", "diff", "explain", "frameworks", "migrate", "policy", "run"}

// TestShownOutput verifies that the pages show what the commands print.
func TestShownOutput(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pagesWithOutput {
		t.Run(page, func(t *testing.T) {
			t.Chdir(t.TempDir())
			save := func(name, text string) {
				err := os.MkdirAll(filepath.Dir(name), 0o750)
				if err == nil {
					err = os.WriteFile(name, []byte(text), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			commands := 0
			golden.RunPage(t, filepath.Join(root, page), save, func(command, shown string) string {
				words := strings.Fields(command)
				for _, name := range commandsWithoutCluster {
					if words[0] == programName && words[1] == name && !strings.Contains(command, "|") {
						commands++
						return runShown(t, command)
					}
				}
				return shown
			})
			if commands == 0 {
				t.Error("the page has no command that needs no cluster")
			}
		})
	}
}

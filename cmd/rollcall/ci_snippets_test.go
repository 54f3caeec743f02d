package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// vetCommand matches a call of vet up to a redirection.
var vetCommand = regexp.MustCompile(`rollcall vet ([^>|\n]+)`)

// TestCISnippets runs the calls of vet in the snippets for CI, and the hooks for pre-commit.
func TestCISnippets(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/check-manifests.md")
	if err != nil {
		t.Fatal(err)
	}
	hookFile, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Entry string
		Pass      bool `json:"pass_filenames"`
	}
	if err := yaml.Unmarshal(hookFile, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%d hooks, want 2: %v", len(hooks), err)
	}
	_, snippets, found := strings.Cut(string(page), "### GitHub Actions\n")
	if !found {
		t.Fatal("the page has no snippets")
	}
	calls := vetCommand.FindAllStringSubmatch(snippets, 2)
	writeFiles(t, map[string]string{"manifests/job.yaml": `apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {rollcall.training/framework: pytorch}}
spec: {parallelism: 1, template: {spec: {restartPolicy: Never, containers: [{name: main, image: "x:1"}]}}}
`})
	var commands []string
	for _, call := range calls {
		commands = append(commands, "vet "+call[1])
	}
	for _, hook := range hooks {
		if hook.Pass || !strings.Contains(snippets, hook.ID) {
			t.Errorf("the hook %s passes files, which are not arguments of vet, or is not on the page", hook.ID)
		}
		commands = append(commands, strings.TrimPrefix(hook.Entry, programName+" ")+" -f manifests --require")
	}
	if len(commands) != 4 {
		t.Fatalf("commands: %q, want two of the page and two hooks", commands)
	}
	for _, command := range commands {
		if stdout, stderr, err := runCommand(t, "", strings.Fields(command)...); err != nil {
			t.Errorf("%s: %v\n%s%s", command, err, stdout, stderr)
		}
	}
}

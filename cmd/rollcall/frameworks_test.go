package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"rollcall.training/injectors"
)

func TestFrameworks(t *testing.T) {
	stdout, _, err := runCommand(t, "", "frameworks")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout, "pytorch") || !strings.Contains(stdout, "23456") {
		t.Errorf("the list does not contain pytorch and its port:\n%s", stdout)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > 80 {
			t.Errorf("the line %q does not fit a terminal", line)
		}
	}
}

func TestFrameworksJSON(t *testing.T) {
	stdout, _, err := runCommand(t, "", "frameworks", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list []frameworkDescription
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	names := injectors.Builtin().Frameworks().Names()
	if len(list) != len(names) || list[0].Name != names[0] {
		t.Fatalf("frameworks %+v, want %q", list, names)
	}
	for _, d := range list {
		isDefault := func(r roleDescription) bool { return r.Default }
		if len(d.Roles) == 0 || !slices.ContainsFunc(d.Roles, isDefault) {
			t.Errorf("roles %+v of %s, want a default role", d.Roles, d.Name)
		}
	}
	isRank := func(v variableDescription) bool { return v.Name == "RANK" && v.Required }
	if !slices.ContainsFunc(list[0].Variables, isRank) {
		t.Errorf("variables %+v of pytorch, want the required RANK", list[0].Variables)
	}
}

// TestFrameworkAdditions verifies that the command lists everything that a framework adds to pods.
func TestFrameworkAdditions(t *testing.T) {
	stdout, _, err := runCommand(t, "", "frameworks", "mpi")
	if err != nil {
		t.Fatal(err)
	}
	checkOrder(t, stdout, []string{
		"launcher, 1 of 5 ranks, roles: launcher=1,worker=4\n",
		"init container rollcall-ssh-setup\n",
		"volume at /etc/mpi\n",
		"Secret train-rollcall-ssh\n",
		"programs of the image: sh awk", "ssh-keyscan\n",
		"worker, 4 of 5 ranks",
		"sshd\n",
	})
}

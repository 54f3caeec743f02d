// Package docs_test writes the pages that follow from the code, and fails when one
// of them does not.
package docs_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

var update = flag.Bool("update", false, "rewrite the generated pages")

const notice = "<!-- Generated from the code: make golden. -->\n\n"

// check compares a page with what the code says, or rewrites it.
func check(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if os.Getenv("CI") != "" {
			t.Fatal("pages are not rewritten under CI")
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code says; run make golden", path)
	}
}

func keyTable(writtenBack bool) string {
	var out strings.Builder
	if writtenBack {
		out.WriteString("| key | kind | meaning |\n|---|---|---|\n")
	} else {
		out.WriteString("| key | kind | values | default | meaning |\n|---|---|---|---|---|\n")
	}
	for _, k := range gang.Keys() {
		name := "`" + strings.TrimPrefix(k.Name, gang.Prefix) + "`"
		switch {
		case gang.WrittenBack(k.Name) != writtenBack:
		case writtenBack:
			fmt.Fprintf(&out, "| %s | %s | %s |\n", name, k.Kind, k.Meaning)
		default:
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", name, k.Kind, k.Values, k.Default, k.Meaning)
		}
	}
	return out.String()
}

func TestKeys(t *testing.T) {
	page := "# Labels and annotations\n\n" + notice +
		"All keys have the prefix `" + gang.Prefix + "` and stand in the metadata of the Job or StatefulSet itself, not of its pod template.\n\n" +
		"## What you write\n\n" + keyTable(false) +
		"\nA key under the prefix that is not in this table gets a warning with the nearest one that is.\n\n" +
		"## What Rollcall writes back\n\n" + keyTable(true)
	check(t, "reference/keys.md", []byte(page))
}

// TestReadme keeps the table of the README, between its two marks.
func TestReadme(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- keys -->\n", "<!-- /keys -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", path, begin, end)
	}
	check(t, path, []byte(head+begin+keyTable(false)+end+tail))
}

func TestFrameworks(t *testing.T) {
	for _, inj := range injectors.Builtin() {
		f := inj.Framework()
		var out strings.Builder
		fmt.Fprintf(&out, "# %s\n\n%s", f.Name, notice)
		fmt.Fprintf(&out, "Roles: %s. Rendezvous port: %d, or the annotation `%s`.\n\n", strings.Join(f.Roles, ", "), f.Port, gang.AnnotationPort)
		out.WriteString("For a Job `train` of 4 ranks in the namespace `team`, with a limit of 8 accelerators and 64 cores:\n\n")
		out.WriteString("| variable | value | yours instead |\n|---|---|---|\n")
		g := gang.Gang{
			Name: "train", Namespace: "team", Framework: f, Role: f.Roles[0], Kind: gang.Job, Workload: "train",
			IndexLabel: gang.Workload{}.IndexLabel(), Size: 4, Service: "train", Domain: gang.DefaultClusterDomain, Port: f.Port,
			Containers: []gang.Container{{Name: "trainer", CPU: 64, Accelerators: 8}}, Processes: gang.Processes{Count: 8},
		}
		for _, e := range inj.Plan(g).Env {
			value := cmp.Or(e.Value, "the rank: the pod's index label")
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", e.Name, value, yours(e))
		}
		check(t, "frameworks/"+f.Name+".md", []byte(out.String()))
	}
}

// yours says what becomes of a value that the user sets.
func yours(e plan.Env) string {
	if e.Policy != plan.Own {
		return "stays"
	}
	if e.Fix != "" {
		return "refused: " + e.Fix
	}
	return "refused"
}

// Package docs_test writes the pages that follow from the code, and fails when one
// of them does not.
package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
		samples, err := injectors.Builtin().Samples(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		fmt.Fprintf(&out, "# %s\n\n%s", f.Name, notice)
		fmt.Fprintf(&out, "Port: %d, or the annotation `%s`.\n\n%s\n", f.Port, gang.AnnotationPort, roleTable(f))
		out.WriteString("The pods below have limits of 8 accelerators and 64 cores, in the namespace `team`.\n")
		for _, s := range samples {
			out.WriteString(section(s))
		}
		check(t, "frameworks/"+f.Name+".md", []byte(out.String()))
	}
}

// roleTable says what the roles are, in the order of their ranks.
func roleTable(f gang.Framework) string {
	var out strings.Builder
	out.WriteString("| role | pods | needs | its end |\n|---|---|---|---|\n")
	for _, r := range f.Roles {
		name, pods, end := r.Name, "any number", "counts as one of all"
		if r.Name == f.Role {
			name += " (default)"
		}
		if r.Max > 0 {
			pods = strconv.Itoa(int(r.Max))
		}
		switch {
		case r.Decides:
			end = "is the end of the gang"
		case r.Serves:
			end = "is not waited for"
		}
		needs := strings.Join(r.Requires, ", ")
		if len(r.Excludes) > 0 {
			needs = strings.TrimPrefix(needs+", no "+strings.Join(r.Excludes, ", no "), ", ")
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", name, pods, needs, end)
	}
	return out.String()
}

// section shows one workload.
func section(s injectors.Sample) string {
	var out strings.Builder
	title := fmt.Sprintf("A gang of %d", s.Gang.Size)
	if s.Roles != "" {
		title = fmt.Sprintf("The %s of `roles: %s`", s.Gang.Role, s.Roles)
	}
	if s.Gang.Elastic != nil {
		title += fmt.Sprintf(", `elastic: %s`", s.Gang.Elastic)
	}
	fmt.Fprintf(&out, "\n## %s\n\nThe Job `%s`.\n\n| variable | value | yours instead |\n|---|---|---|\n", title, s.Gang.Workload)
	for _, e := range s.Plan.Env {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", e.Name, value(e), yours(e))
	}
	var also []string
	for _, i := range s.Plan.Inits {
		also = append(also, "the init container `"+i.Name+"`")
	}
	for _, v := range s.Plan.Volumes {
		for _, m := range v.Mounts {
			also = append(also, "`"+m.MountPath+"`")
		}
	}
	if len(s.Plan.Command) > 0 {
		also = append(also, "the command `"+strings.Join(s.Plan.Command, " ")+"`, unless it has one")
	}
	if s.Plan.Children.KeyPair != "" {
		also = append(also, "the Secret `"+s.Plan.Children.KeyPair+"`")
	}
	if len(also) > 0 {
		fmt.Fprintf(&out, "\nAlso: %s.\n", strings.Join(also, ", "))
	}
	return out.String()
}

// value shows a variable's value.
func value(e plan.Env) string {
	switch {
	case e.ValueFrom == nil && e.Value == "":
		return "empty"
	case e.ValueFrom == nil:
		return strings.ReplaceAll(e.Value, "|", "\\|")
	case strings.Contains(e.ValueFrom.FieldRef.FieldPath, gang.LabelRank):
		return "the rank: the index and the offset of the role"
	default:
		return "the pod's index"
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

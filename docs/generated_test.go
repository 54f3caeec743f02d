// Package docs_test generates reference pages from the code and verifies that they are up to date.
package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

var updatePages = flag.Bool("update", false, "rewrite the generated pages")

const generatedNotice = "<!-- Generated from the code: make golden. -->\n\n"

// checkPage compares a page with the generated text. With -update it writes the page first.
func checkPage(t *testing.T, path string, want []byte) {
	t.Helper()
	if *updatePages {
		if os.Getenv("CI") != "" {
			t.Fatal("-update is not allowed in CI")
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
		t.Errorf("%s is out of date; run make golden", path)
	}
}

// formatKeyTable returns the table of the keys that Rollcall sets, or of the keys that users set.
func formatKeyTable(setByRollcall bool) string {
	var out strings.Builder
	if setByRollcall {
		out.WriteString("| key | kind | meaning |\n|---|---|---|\n")
	} else {
		out.WriteString("| key | kind | values | default | meaning |\n|---|---|---|---|---|\n")
	}
	for _, k := range gang.Keys() {
		name := "`" + strings.TrimPrefix(k.Name, gang.Prefix) + "`"
		switch {
		case gang.IsWrittenByRollcall(k.Name) != setByRollcall:
		case setByRollcall:
			fmt.Fprintf(&out, "| %s | %s | %s |\n", name, k.Kind, k.Description)
		default:
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", name, k.Kind, k.Values, k.Default, k.Description)
		}
	}
	return out.String()
}

// TestLabelsAndAnnotationsPage generates the reference page of all keys.
func TestLabelsAndAnnotationsPage(t *testing.T) {
	page := "# Labels and annotations\n\n" + generatedNotice +
		"All keys have the prefix `" + gang.Prefix + "`. Set them in the metadata of the Job or\n" +
		"StatefulSet itself, not in the metadata of its pod template. Editors\n" +
		"[complete them](../tasks/check-manifests.md#complete-keys-in-an-editor).\n\n" +
		"## Keys that you set\n\n" + formatKeyTable(false) +
		"\nThe webhook warns about keys with this prefix that are not in the table, and suggests the most\n" +
		"similar key.\n\n" +
		"## Keys that Rollcall sets\n\n" + formatKeyTable(true)
	checkPage(t, "reference/labels-and-annotations.md", []byte(page))
}

// TestReadme verifies that the README links to the page of TestLabelsAndAnnotationsPage.
func TestReadme(t *testing.T) {
	const page = "(docs/reference/labels-and-annotations.md)"
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), page) {
		t.Errorf("README.md has no link to %s", page)
	}
}

// TestFrameworkPages generates a reference page for each framework.
func TestFrameworkPages(t *testing.T) {
	for _, injector := range injectors.Builtin() {
		f := injector.Framework()
		samples, err := injectors.Builtin().Samples(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		var page strings.Builder
		fmt.Fprintf(&page, "# %s\n\n%s", f.Name, generatedNotice)
		fmt.Fprintf(&page, "The default port is %d. The annotation `%s` overrides it.\n\n", f.Port, gang.AnnotationPort)
		page.WriteString(formatRoleTable(f))
		fmt.Fprintf(&page,
			"\nThe [image requirements](../image-requirements.md#%s) list the programs of the image.\n", f.Name)
		page.WriteString("\nThe examples use the namespace `team` and pods with limits of 8 accelerators and 64 cores.\n")
		for _, s := range samples {
			page.WriteString(formatSampleSection(s))
		}
		checkPage(t, "reference/frameworks/"+f.Name+".md", []byte(page.String()))
	}
}

// commandVariables are variables that contain a program or its options. Their values do not depend on
// the size of a gang, so the managers never need to change them.
var commandVariables = []string{
	"HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
	"OMPI_MCA_plm_rsh_args",
}

// TestChartVariables generates the names of the variables that the managers may change when they inject
// a resized StatefulSet again: those of the frameworks, and those of injectors/ssh that contain hosts.
func TestChartVariables(t *testing.T) {
	names := []string{injectors.EnvSize, "ROLLCALL_HOSTS", "ROLLCALL_MAX_HOSTS", "ROLLCALL_MIN_HOSTS"}
	for _, injector := range injectors.Builtin() {
		variables, err := injectors.Builtin().Variables(injector.Framework().Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variables {
			if !slices.Contains(commandVariables, v.Name) {
				names = append(names, v.Name)
			}
		}
	}
	slices.Sort(names)
	list := strings.Join(slices.Compact(names), "\n") + "\n"
	checkPage(t, "../charts/rollcall/files/variables.txt", []byte(list))
}

// formatRoleTable returns the table of the roles in the order of their ranks, or one row for a framework
// with any roles.
func formatRoleTable(f gang.Framework) string {
	var out strings.Builder
	out.WriteString("| role | pods | needs | on completion |\n|---|---|---|---|\n")
	if f.AnyRoles {
		fmt.Fprintf(&out, "| any DNS label, by default %s | any number |  | all must succeed |\n", f.DefaultRole)
		return out.String()
	}
	for _, r := range f.Roles {
		name, pods, completion := r.Name, "any number", "all must succeed"
		if r.Name == f.DefaultRole {
			name += " (default)"
		}
		if r.MaxPods > 0 {
			pods = strconv.Itoa(int(r.MaxPods))
		}
		switch {
		case r.DeterminesCompletion:
			completion = "completes the gang"
		case r.LongRunning:
			completion = "long-running"
		}
		needs := strings.Join(r.Requires, ", ")
		if len(r.Excludes) > 0 {
			needs = strings.TrimPrefix(needs+", no "+strings.Join(r.Excludes, ", no "), ", ")
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", name, pods, needs, completion)
	}
	return out.String()
}

// formatSampleSection returns the section of one workload with its injected fields.
func formatSampleSection(s injectors.Sample) string {
	title := fmt.Sprintf("A gang of %d", s.Gang.Size)
	if s.Roles != "" {
		title = fmt.Sprintf("The %s of `roles: %s`", s.Gang.Role, s.Roles)
	}
	if s.Gang.Elastic != nil {
		title += fmt.Sprintf(", `elastic: %s`", s.Gang.Elastic)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n## %s\n\nVariables of the Job `%s`:\n\n", title, s.Gang.WorkloadName)
	out.WriteString("| variable | value | if you set another value |\n|---|---|---|\n")
	for _, e := range s.Plan.Env {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", e.Name, formatValue(e), injectors.DescribeOtherValue(e))
	}
	if additions := s.Additions(); len(additions) > 0 {
		out.WriteString("\nRollcall also adds:\n\n")
		for _, a := range additions {
			fmt.Fprintf(&out, "- %s `%s`\n", a.Kind, a.Name)
		}
	}
	return out.String()
}

// formatValue returns the value of a variable for a table cell. A literal value is code.
func formatValue(e plan.Env) string {
	switch {
	case e.ValueFrom == nil && e.Value == "":
		return "empty"
	case e.ValueFrom == nil:
		return "`" + strings.ReplaceAll(e.Value, "|", "\\|") + "`"
	case strings.Contains(e.ValueFrom.FieldRef.FieldPath, gang.LabelRank):
		return "rank of the pod (its index plus the rank offset of the role)"
	default:
		return "index of the pod"
	}
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestRunbooks checks that each alert has a page with all sections, that each page has an alert, and that the
// list of runbooks contains each of them.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile("../charts/rollcall/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert  string            `json:"alert"`
				Labels map[string]string `json:"labels"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]string{} // severities
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts[rule.Alert] = rule.Labels["severity"]
		}
	}
	if len(alerts) == 0 {
		t.Fatal("there is no alert")
	}
	files, err := filepath.Glob("runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name != "README" {
			pages[name] = checkRunbook(t, file, name)
		}
	}
	if diff := cmp.Diff(alerts, pages); diff != "" {
		t.Errorf("severities (-alerts, +pages):\n%s", diff)
	}
	list, err := os.ReadFile("runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	rows := regexp.MustCompile(`(?m)^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|`)
	for _, row := range rows.FindAllStringSubmatch(string(list), -1) {
		if row[1] != row[2] {
			t.Errorf("the link of %s leads to %s", row[1], row[2])
		}
		listed[row[1]] = row[3]
	}
	if diff := cmp.Diff(alerts, listed); diff != "" {
		t.Errorf("severities (-alerts, +list):\n%s", diff)
	}
}

// checkRunbook returns the severity in a runbook. It fails the test if a section is missing or empty.
func checkRunbook(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	format := regexp.MustCompile(`^# (\w+)\n\nSeverity: (\w+)\n\n## Meaning\n\n[^#]+## Impact\n\n[^#]+` +
		"## Diagnosis\n\n[^#]*```(?:sh|promql)\n" + `[\s\S]+\n## Fix\n\n[\s\S]+\n$`)
	match := format.FindStringSubmatch(string(text))
	if match == nil {
		t.Errorf("%s has not the sections Meaning, Impact, Diagnosis with commands, and Fix", file)
		return ""
	}
	if match[1] != name {
		t.Errorf("the title of %s is %s", file, match[1])
	}
	return match[2]
}

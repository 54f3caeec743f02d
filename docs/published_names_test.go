package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// publishedNames match the names in files that depend on where the project is published. The keys are the rows of the
// table in docs/contributing/releasing.md.
var publishedNames = map[string]*regexp.Regexp{
	"version": regexp.MustCompile(`(?:VERSION=|--version |image\.tag=|targetRevision: |rev: |` +
		`chart: rollcall\n +version: |\n  version +=) ?"?v?(\d+\.\d+\.\d+)`),
	"registry":   regexp.MustCompile(`([a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?/[\w./-]*)/(?:manager|charts)\b`),
	"repository": regexp.MustCompile(`(?:git clone|repo:|repo_url:) (https://\S+)`),
}

// TestPublishedNames checks that all files name the same version, registry and repository, so that one command
// replaces them.
func TestPublishedNames(t *testing.T) {
	page, err := os.ReadFile("contributing/releasing.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "--", "README.md", "Makefile",
		"docs/*.md", "examples/installation", "charts/*.yaml", "charts/*.tpl", "charts/*.txt", "site/mkdocs.yml",
		"release/cmd", "test/installation/chart.go", "test/chart/gitops_test.go").Output()
	if err != nil {
		t.Fatalf("listing files: %v", err)
	}
	for name, pattern := range publishedNames {
		row := regexp.MustCompile("\\| " + name + " \\| `(.+)` \\|").FindSubmatch(page)
		if row == nil {
			t.Fatalf("the table of names has no row %q", name)
		}
		found := 0
		for file := range strings.FieldsSeq(string(files)) {
			text, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range pattern.FindAllSubmatch(text, -1) {
				found++
				if string(match[1]) != string(row[1]) {
					t.Errorf("%s: %s: the %s is %q in releasing.md", file, match[0], name, row[1])
				}
			}
		}
		if found < 3 {
			t.Errorf("only %d files name the %s", found, name)
		}
	}
}

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPersonas checks that each task page names its readers below its title, and that the site lists it in the part for
// these readers.
func TestPersonas(t *testing.T) {
	t.Parallel()
	parts := map[string]string{
		"users of a cluster":     "Use a cluster",
		"cluster administrators": "Run a cluster",
		"anyone who migrates":    "Migrate",
	}
	navigation, err := os.ReadFile("../site/mkdocs.yml")
	if err != nil {
		t.Fatalf("reading the navigation of the site: %v", err)
	}
	err = filepath.WalkDir("tasks", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(page), "\n\n")
		line, _, _ := strings.Cut(rest, "\n")
		readers, found := strings.CutPrefix(line, "For: ")
		part := parts[readers]
		if !found || part == "" {
			t.Errorf("%s: the line below the title is %q, want For: and one of the readers %v", path, line, parts)
			return nil
		}
		_, items, _ := strings.Cut(string(navigation), "\n  - "+part+":\n")
		items, _, _ = strings.Cut(items, "\n  - ")
		if !strings.Contains(items+"\n", "- "+filepath.ToSlash(path)+"\n") {
			t.Errorf("%s: the part %q of site/mkdocs.yml does not list it", path, part)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("reading task pages: %v", err)
	}
}

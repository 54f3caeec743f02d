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
		"users of a cluster":                            "Use a cluster",
		"cluster administrators":                        "Run a cluster",
		"cluster administrators and users of a cluster": "Run a cluster",
		"anyone who migrates":                           "Migrate",
	}
	navigation := readSiteNavigation(t)
	err := filepath.WalkDir("tasks", func(path string, _ fs.DirEntry, err error) error {
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
		_, items, _ := strings.Cut(navigation, "\n  - "+part+":\n")
		items, _, _ = strings.Cut(items, "\n  - ")
		if !listsPage(items+"\n", path) {
			t.Errorf("%s: the part %q of site/mkdocs.yml does not list it", path, part)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("reading task pages: %v", err)
	}
}

// TestSiteNavigation checks that the navigation of the site lists each page, without which `make site` fails.
func TestSiteNavigation(t *testing.T) {
	t.Parallel()
	navigation, pages := readSiteNavigation(t), 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || strings.HasPrefix(path, "testdata") || path == "README.md" {
			return err
		}
		pages++
		if !listsPage(navigation, path) {
			t.Errorf("site/mkdocs.yml does not list the page %s", path)
		}
		return nil
	})
	if err != nil || pages == 0 {
		t.Errorf("read %d pages (%v)", pages, err)
	}
}

// readSiteNavigation returns the file with the navigation of the site.
func readSiteNavigation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../site/mkdocs.yml")
	if err != nil {
		t.Fatalf("reading the navigation of the site: %v", err)
	}
	return string(text)
}

// listsPage reports whether lines of the navigation contain a page.
func listsPage(navigation, path string) bool {
	return strings.Contains(navigation, "- "+filepath.ToSlash(path)+"\n")
}

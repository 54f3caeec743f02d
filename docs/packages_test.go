package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFilePattern matches the name of a Go file in a comment, with its directory if it has one.
var goFilePattern = regexp.MustCompile(`[a-z0-9_./-]+\.go\b`)

// TestPackageDocs checks the files that the doc.go of each package names: they exist in this repository, and a section
// "Files" names all of the package. Names with a directory can be those of another repository.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "--cached", "--others",
		"--exclude-standard", "*.go").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	exists := map[string]bool{} // by base name
	for name := range strings.FieldsSeq(string(out)) {
		exists[filepath.Base(name)] = exists[filepath.Base(name)] || isFile(filepath.Join("..", name))
	}
	for name := range strings.FieldsSeq(string(out)) {
		doc, dir := filepath.Join("..", name), filepath.Dir(filepath.Join("..", name))
		if filepath.Base(doc) != "doc.go" || strings.Contains(doc, "testdata") {
			continue
		}
		text, err := os.ReadFile(doc)
		if os.IsNotExist(err) {
			continue // deleted, but not committed
		}
		if err != nil {
			t.Fatalf("reading a doc.go: %v", err)
		}
		named := goFilePattern.FindAllString(string(text), -1)
		for _, file := range named {
			if !strings.Contains(file, "/") && !exists[file] {
				t.Errorf("%s names %s, which does not exist", name, file)
			}
		}
		_, section, hasFiles := strings.Cut(string(text), "// # Files\n")
		if !hasFiles {
			continue
		}
		listed := goFilePattern.FindAllString(section, -1)
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatalf("listing the files of a package: %v", err)
		}
		for _, file := range files {
			base := filepath.Base(file)
			if base != "doc.go" && !strings.HasSuffix(base, "_test.go") && !slices.Contains(listed, base) {
				t.Errorf("the section Files of %s does not name %s", name, base)
			}
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	attackTestPattern = regexp.MustCompile("`(Test[A-Za-z]+)(?:/([A-Za-z]+))?`")
	testFuncPattern   = regexp.MustCompile(`(?m)^func (Test[A-Za-z]+)\(`)
	testCasePattern   = regexp.MustCompile(`(?m)^\t+"([A-Z][A-Za-z]+)": +test`)
)

// TestAttackTable checks that each test in the table of attacks exists, and that the table contains each test
// whose name starts with TestAttack.
func TestAttackTable(t *testing.T) {
	page, err := os.ReadFile("reference/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Attacks\n")
	tests, cases := findTests(t)
	named := map[string]bool{}
	for _, found := range attackTestPattern.FindAllStringSubmatch(table, -1) {
		named[found[1]] = true
		if !tests[found[1]] || found[2] != "" && !cases[found[2]] {
			t.Errorf("the table names %s, which does not exist", found[0])
		}
	}
	if len(named) == 0 {
		t.Error("the table names no test")
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestAttack") && !named[name] && name != t.Name() {
			t.Errorf("the table does not name %s", name)
		}
	}
}

// findTests returns the names of all tests and of the cases of integration tests.
func findTests(t *testing.T) (tests, cases map[string]bool) {
	t.Helper()
	tests, cases = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range testFuncPattern.FindAllSubmatch(text, -1) {
			tests[string(found[1])] = true
		}
		for _, found := range testCasePattern.FindAllSubmatch(text, -1) {
			cases[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, cases
}

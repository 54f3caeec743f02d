package controller

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFilesInDoc checks that the package comment lists the files of the package.
func TestFilesInDoc(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "// # Files\n")
	var listed []string
	for _, line := range regexp.MustCompile(`(?m)^//   - (.*?):`).FindAllStringSubmatch(list, -1) {
		listed = append(listed, strings.Split(line[1], ", ")...)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		return name == "doc.go" || strings.HasSuffix(name, "_test.go")
	})
	slices.Sort(listed)
	if diff := cmp.Diff(files, listed); diff != "" {
		t.Errorf("files of the package (-have +listed):\n%s", diff)
	}
}

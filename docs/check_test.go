package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/check"
)

// checkRow matches a row of the table of checks.
var checkRow = regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\| (yes)? ?\\|")

// TestCheckPage verifies that the page lists all checks in the order of a report.
func TestCheckPage(t *testing.T) {
	page, err := os.ReadFile("reference/check.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []check.Code
	for _, row := range checkRow.FindAllSubmatch(page, -1) {
		listed = append(listed, check.Code(row[1]))
	}
	if diff := cmp.Diff(check.Codes(), listed); diff != "" {
		t.Errorf("the checks of the page differ (-want +got):\n%s", diff)
	}
}

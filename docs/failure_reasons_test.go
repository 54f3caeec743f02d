package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/failure"
)

var (
	reasonRow      = regexp.MustCompile("(?m)^\\| (`[A-Z].*) \\| .* \\| (yes|no)[^|]* \\|$")
	reasonConstant = regexp.MustCompile(`Reason[A-Z]\w+ += "(\w+)"`)
	reasonList     = regexp.MustCompile(`var \w+Reasons = (?:append\()?\[\]string{([^}]*)}`)
	quotedWord     = regexp.MustCompile("[\"`](\\w+)[\"`]")
)

// reasonsOfContainers are reasons of disruptions with which a container exits.
var reasonsOfContainers = []string{failure.ReasonPreflightFailed, "Unknown", "ContainerStatusUnknown"}

// TestFailureReasons checks that the only list of disruptions contains all reasons of failures, and what they count as.
func TestFailureReasons(t *testing.T) {
	page, err := os.ReadFile("concepts/first-failure.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range reasonRow.FindAllStringSubmatch(string(page), -1) {
		for _, word := range quotedWord.FindAllStringSubmatch(row[1], -1) {
			listed[word[1]] = row[2] == "yes"
		}
	}
	want := map[string]bool{"Error": false, "OOMKilled": false, failure.ReasonStalled: false}
	for _, reason := range findFailureReasons(t) {
		f := &failure.Failure{Reason: reason}
		if slices.Contains(reasonsOfContainers, reason) {
			f.Container = "trainer"
		}
		want[reason] = f.IsDisruption()
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("reasons and whether they are disruptions (-code, +page):\n%s", diff)
	}
}

// findFailureReasons returns the reasons in the constants and the lists of the package failure.
func findFailureReasons(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../internal/failure/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words := reasonConstant.FindAllStringSubmatch(string(text), -1)
		for _, list := range reasonList.FindAllStringSubmatch(string(text), -1) {
			words = append(words, quotedWord.FindAllStringSubmatch(list[1], -1)...)
		}
		for _, word := range words {
			found[word[1]] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

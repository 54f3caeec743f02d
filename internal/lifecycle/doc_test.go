package lifecycle

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFailuresInDoc checks that the package comment lists the failures in the order in which detectFailure looks for
// them.
func TestFailuresInDoc(t *testing.T) {
	find := func(file, from, to, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, section, _ := strings.Cut(string(text), from)
		section, _, _ = strings.Cut(section, to)
		var out []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(section, -1) {
			out = append(out, match[1])
		}
		return out
	}
	code := find("restart.go", "detectFailure(", "\n}\n", `(Reason\w+),|return (?:snapshot\.FirstFailure)()`)
	doc := find("doc.go", "(restart.go):", "is about to finish",
		`failure\.(Reason\w+)\]|failure\.(?:First|Failure\.IsDisruption)\]()`)
	if len(code) != 10 {
		t.Errorf("detectFailure has the results %q", code)
	}
	if diff := cmp.Diff(code, doc); diff != "" {
		t.Errorf("failures, of which an empty one is a failure of a pod (-code +doc):\n%s", diff)
	}
}

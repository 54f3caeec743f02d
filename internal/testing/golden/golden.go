package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

var updateGoldens = flag.Bool("update", false, "rewrite the golden files")

// Result is the output of a front end for one workload.
type Result struct {
	// Warnings and Denials are messages for the user, one line each.
	Warnings, Denials []string
	// Object is the admitted workload as YAML or JSON. It is ignored if Denials is not empty.
	Object []byte
}

// FrontEnd injects a manifest. It must use the namespace "default" for a manifest without a namespace.
type FrontEnd func(t *testing.T, manifest []byte) Result

// Case is one golden case.
type Case struct {
	// Name is the path of the manifest relative to package injectors, without an extension.
	Name string
	// Manifest is the content of the manifest.
	Manifest []byte

	goldenPath string
}

// injectorsDir returns the directory of package injectors.
func injectorsDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "injectors")
}

// Cases returns all golden cases. A golden file without a manifest is a test error.
func Cases(t testing.TB) []Case {
	t.Helper()
	var cases []Case
	expected := map[string]bool{}
	for _, path := range globFiles(t, "*/testdata/*.yaml", "*/testdata/*/*.yaml") {
		manifest, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(path, ".yaml")
		name, err := filepath.Rel(injectorsDir(), base)
		if err != nil {
			t.Fatal(err)
		}
		expected[base+".golden"] = true
		cases = append(cases, Case{Name: filepath.ToSlash(name), Manifest: manifest, goldenPath: base + ".golden"})
	}
	for _, path := range globFiles(t, "*/testdata/*.golden", "*/testdata/*/*.golden") {
		if !expected[path] {
			t.Errorf("%s has no manifest; delete the golden file", path)
		}
	}
	if len(cases) == 0 {
		t.Fatal("no golden cases found")
	}
	return cases
}

// globFiles returns the files below injectorsDir that match one of the patterns.
func globFiles(t testing.TB, patterns ...string) []string {
	t.Helper()
	var out []string
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(injectorsDir(), filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, paths...)
	}
	return out
}

// Run tests a front end with every golden case.
func Run(t *testing.T, frontEnd FrontEnd) {
	for _, c := range Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			got := renderResult(t, frontEnd(t, c.Manifest))
			if *updateGoldens {
				rewriteGolden(t, c.goldenPath, got)
			}
			want, err := os.ReadFile(c.goldenPath)
			if err != nil {
				t.Fatalf("reading the golden file: %v; create it with make golden", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", c.goldenPath, diff)
			}
		})
	}
}

// rewriteGolden writes a golden file. It fails in CI, where a rewritten golden file would hide every
// failure.
func rewriteGolden(t *testing.T, path string, text []byte) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("golden files must not be rewritten in CI")
	}
	if err := os.WriteFile(path, text, 0o644); err != nil { // a file of the repository
		t.Fatal(err)
	}
}

// renderResult returns the content of a golden file: first the messages for the user, then the object.
func renderResult(t *testing.T, result Result) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, warning := range result.Warnings {
		fmt.Fprintf(&out, "# warning: %s\n", warning)
	}
	for _, denial := range result.Denials {
		fmt.Fprintf(&out, "# denied: %s\n", denial)
	}
	if len(result.Denials) > 0 {
		return out.Bytes()
	}
	// Decoding and encoding removes differences in formatting. Only the webhook sets the phase Pending and
	// the labels with facts. The record repeats what the object contains, see TestRecordIsComplete.
	w := ParseWorkload(t, result.Object)
	delete(w.Meta().Annotations, gang.AnnotationInjected)
	delete(w.Meta().Labels, gang.LabelSize)
	delete(w.Meta().Labels, gang.LabelAccelerators)
	if w.Meta().Labels[gang.LabelPhase] == string(lifecycle.Pending) {
		delete(w.Meta().Labels, gang.LabelPhase)
	}
	text, err := yaml.Marshal(w.Object())
	if err != nil {
		t.Fatalf("encoding the result: %v", err)
	}
	out.Write(text)
	return out.Bytes()
}

// ParseWorkload decodes the manifest of a Job or a StatefulSet.
func ParseWorkload(t testing.TB, manifest []byte) gang.Workload {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(manifest, &meta); err != nil {
		t.Fatalf("decoding the manifest: %v", err)
	}
	w, ok := gang.NewWorkload(gang.Kind(meta.Kind))
	if !ok {
		t.Fatalf("the manifest has the unsupported kind %q", meta.Kind)
	}
	if err := yaml.Unmarshal(manifest, w.Object()); err != nil {
		t.Fatalf("decoding the manifest: %v", err)
	}
	return w
}

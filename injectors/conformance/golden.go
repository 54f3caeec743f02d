package conformance

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
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Outcome is what a front end makes of one workload.
type Outcome struct {
	// Warnings and Denials are lines for the user.
	Warnings, Denials []string
	// Object is the admitted workload as YAML or JSON; ignored when there are
	// denials.
	Object []byte
}

// FrontEnd is a way to have a manifest injected. Objects that name no namespace
// are in "default".
type FrontEnd func(t *testing.T, manifest []byte) Outcome

// Case is one golden case.
type Case struct {
	// Name is the manifest's path below the injectors folder, without ending.
	Name string
	// Manifest is its text.
	Manifest []byte

	golden string // path of the golden file
}

// Root is the folder of package injectors.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// Cases returns all golden cases, and fails on stale golden files.
func Cases(t testing.TB) []Case {
	t.Helper()
	var cases []Case
	expected := map[string]bool{}
	manifests := glob(t, "*/testdata/*.yaml", "*/testdata/*/*.yaml")
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(path, ".yaml")
		name, err := filepath.Rel(Root(), base)
		if err != nil {
			t.Fatal(err)
		}
		expected[base+".golden"] = true
		cases = append(cases, Case{Name: filepath.ToSlash(name), Manifest: text, golden: base + ".golden"})
	}
	for _, path := range glob(t, "*/testdata/*.golden", "*/testdata/*/*.golden") {
		if !expected[path] {
			t.Errorf("%s is stale: no manifest of that name; remove it", path)
		}
	}
	if len(cases) == 0 {
		t.Fatal("no golden cases found")
	}
	return cases
}

func glob(t testing.TB, patterns ...string) []string {
	t.Helper()
	var out []string
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(Root(), filepath.FromSlash(p)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, paths...)
	}
	return out
}

// Goldens runs every golden case through a front end.
func Goldens(t *testing.T, front FrontEnd) {
	for _, c := range Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			got := render(t, front(t, c.Manifest))
			if *update {
				rewrite(t, c.golden, got)
			}
			want, err := os.ReadFile(c.golden)
			if err != nil {
				t.Fatalf("reading the golden file: %v; make it with go test ./injectors -update", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", c.golden, diff)
			}
		})
	}
}

// rewrite refuses to work under CI, where a golden file that follows the code
// would prove nothing.
func rewrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("golden files are not rewritten under CI")
	}
	if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a file of the repository, readable by all
		t.Fatal(err)
	}
}

// render writes an outcome as a golden file: the lines for the user first.
func render(t *testing.T, o Outcome) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, w := range o.Warnings {
		fmt.Fprintf(&out, "# warning: %s\n", w)
	}
	for _, d := range o.Denials {
		fmt.Fprintf(&out, "# denied: %s\n", d)
	}
	if len(o.Denials) > 0 {
		return out.Bytes()
	}
	// Through the Go type and back, so that front ends may differ in style. That a
	// gang begins as Pending is the webhook's alone to say.
	w := Workload(t, o.Object)
	if w.Meta().Labels[gang.LabelPhase] == string(gang.Pending) {
		delete(w.Meta().Labels, gang.LabelPhase)
	}
	text, err := yaml.Marshal(w.Object())
	if err != nil {
		t.Fatalf("writing the outcome: %v", err)
	}
	out.Write(text)
	return out.Bytes()
}

// Workload reads a manifest of one workload.
func Workload(t testing.TB, manifest []byte) gang.Workload {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(manifest, &meta); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	w, ok := gang.NewWorkload(gang.Kind(meta.Kind))
	if !ok {
		t.Fatalf("a manifest of kind %q is no workload", meta.Kind)
	}
	if err := yaml.Unmarshal(manifest, w.Object()); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	return w
}

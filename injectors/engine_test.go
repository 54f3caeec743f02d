package injectors_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/internal/testing/golden"
)

func TestConformance(t *testing.T) {
	for _, inj := range injectors.Builtin() {
		name := inj.Framework().Name
		t.Run(name, func(t *testing.T) { conformance.RunSuite(t, inj) })
		if cases, err := filepath.Glob(name + "/testdata/*.yaml"); err != nil || len(cases) == 0 {
			t.Errorf("injectors/%s/testdata contains no golden cases: %v", name, err)
		}
	}
}

// injectWithEngine is a front end that calls the engine directly.
func injectWithEngine(t *testing.T, text []byte) golden.Result {
	t.Helper()
	w := golden.ParseWorkload(t, text)
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = "default"
	}
	result, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w)
	out := golden.Result{Warnings: result.Warnings.Strings()}
	if err != nil {
		if !injectors.IsDenied(err) {
			t.Fatalf("internal error: %v", err)
		}
		out.Denials = injectors.DenialCauses(err)
		return out
	}
	if out.Object, err = yaml.Marshal(w.Object()); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGoldens(t *testing.T) { golden.Run(t, injectWithEngine) }

// TestDenialWithoutName verifies that a missing name hides no mistake of the variables.
func TestDenialWithoutName(t *testing.T) {
	w := golden.ParseWorkload(t, []byte(`
apiVersion: batch/v1
kind: Job
metadata: {generateName: train-, namespace: team, labels: {rollcall.training/framework: pytorch}}
spec:
  parallelism: 2
  template:
    spec: {containers: [{name: trainer, image: a, env: [{name: RANK, value: "0"}, {name: WORLD_SIZE, value: "9"}]}]}
`))
	before := w.DeepCopy()
	_, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w)
	var got []string
	for _, cause := range injectors.DenialCauses(err) {
		field, _, _ := strings.Cut(cause, ": ")
		got = append(got, field)
	}
	const env = "spec.template.spec.containers[0].env"
	want := []string{"metadata.name", env + "[0].value", env + "[1].value"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("fields (-want +got):\n" + diff)
	}
	if diff := cmp.Diff(before, w); diff != "" {
		t.Error("the denied workload was changed (-want +got):\n" + diff)
	}
}

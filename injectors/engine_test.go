package injectors_test

import (
	"fmt"
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

// TestDenialLists verifies that a mistake with a remedy hides no other mistake.
func TestDenialLists(t *testing.T) {
	const env = "spec.template.spec.containers[0].env"
	cases := map[string]struct {
		metadata, size string
		want           []string
	}{
		"a missing name": {
			metadata: "generateName: train-", size: "parallelism: 2",
			want: []string{"metadata.name", env + "[0].value", env + "[1].value"},
		},
		"two sizes": {
			metadata: "name: train", size: "completions: 4, parallelism: 2",
			want: []string{"spec.completions", env + "[0].value", env + "[1].value"},
		},
		"a missing name and two sizes": {
			metadata: "generateName: train-", size: "completions: 4, parallelism: 2",
			want: []string{"spec.completions", "metadata.name", env + "[0].value", env + "[1].value"},
		},
		"two sizes and an annotation without a remedy": {
			metadata: `name: train, annotations: {rollcall.training/port: "0"}`, size: "completions: 4, parallelism: 2",
			want: []string{"spec.completions", "metadata.annotations[rollcall.training/port]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := golden.ParseWorkload(t, fmt.Appendf(nil, `
apiVersion: batch/v1
kind: Job
metadata: {namespace: team, labels: {rollcall.training/framework: pytorch}, %s}
spec:
  {%s, template: {spec: {containers: [
    {name: trainer, image: a, env: [{name: RANK, value: "0"}, {name: WORLD_SIZE, value: "9"}]}]}}}
`, c.metadata, c.size))
			before := w.DeepCopy()
			_, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Inject(w)
			var got []string
			for _, cause := range injectors.DenialCauses(err) {
				field, _, _ := strings.Cut(cause, ": ")
				got = append(got, field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error("fields (-want +got):\n" + diff)
			}
			if diff := cmp.Diff(before, w); diff != "" {
				t.Error("the denied workload was changed (-want +got):\n" + diff)
			}
		})
	}
}

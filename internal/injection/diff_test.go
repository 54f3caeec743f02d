package injection_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/injection"
	"rollcall.training/plan"
)

// TestCheckUnique checks plans that also have the variable RANK.
func TestCheckUnique(t *testing.T) {
	for name, c := range map[string]struct {
		plan    plan.Plan
		wantErr string // substring of the error; empty for success
	}{
		"different variables": {
			plan: plan.Plan{Env: []plan.Env{plan.LiteralEnv("SIZE", "1")}},
		},
		"same variable twice": {
			plan:    plan.Plan{Env: []plan.Env{plan.LiteralEnv("RANK", "1")}},
			wantErr: "env/RANK is planned twice",
		},
		"same label twice": {
			plan:    plan.Plan{PodLabels: []plan.Label{{Name: "l"}, {Name: "l"}}},
			wantErr: "label/l is planned twice",
		},
		"label with the name of a variable": {
			plan: plan.Plan{PodLabels: []plan.Label{{Name: "RANK"}}},
		},
		"same resource twice": {
			plan:    plan.Plan{Resources: []plan.Resource{{Name: "r"}, {Name: "r"}}},
			wantErr: "resource/r",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.plan.Env = append(c.plan.Env, plan.LiteralEnv("RANK", "0"))
			err := injection.CheckUnique(&c.plan)
			if got := fmt.Sprint(err); (err != nil) != (c.wantErr != "") || !strings.Contains(got, c.wantErr) {
				t.Errorf("CheckUnique() returned error %v, want an error with %q", err, c.wantErr)
			}
		})
	}
}

// TestDiff applies the patch between two objects to the text of the first object.
func TestDiff(t *testing.T) {
	withEnv := func(names ...string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			c := &j.Spec.Template.Spec.Containers[0]
			c.Env = nil
			for _, n := range names {
				c.Env = append(c.Env, corev1.EnvVar{Name: n, Value: "of " + n})
			}
		}
	}
	unchanged := func(*batchv1.Job) {}
	for name, c := range map[string]struct {
		from    func(*batchv1.Job)
		to      func(*batchv1.Job)
		raw     string // of the first object; empty for the encoding of the Go type
		wantOps int    // number of operations, which must not depend on the size of the object
	}{
		"no change": {
			from: withEnv("A"), to: withEnv("A"), wantOps: 0,
		},
		"first variable creates the list": {
			from: withEnv(), to: withEnv("A"), wantOps: 1,
		},
		"variables are appended": {
			from: withEnv("A", "B"), to: withEnv("A", "B", "C", "D"), wantOps: 2,
		},
		"variables are inserted at the front without changing the others": {
			from: withEnv("A", "B"), to: withEnv("X", "Y", "A", "B"), wantOps: 2,
		},
		"variables are removed": {
			from: withEnv("A", "B", "C"), to: withEnv("B"), wantOps: 2,
		},
		"all variables are removed": {
			from: withEnv("A"), to: withEnv(), wantOps: 1,
		},
		"variable is moved to the front": {
			from: withEnv("A", "B", "C"), to: withEnv("C", "A", "B"), wantOps: 2,
		},
		"variables are reversed": {
			from: withEnv("A", "B", "C"), to: withEnv("C", "B", "A"), wantOps: 4,
		},
		"variables with the same name": {
			from: withEnv("A", "A", "B"), to: withEnv("A", "A", "X", "B"), wantOps: 1,
		},
		"keys with a slash and a tilde are escaped": {
			from:    func(j *batchv1.Job) { j.Labels = map[string]string{"x/y~z": "1"} },
			to:      func(j *batchv1.Job) { j.Labels = map[string]string{"x/y~z": "2", "a~1/b": "3"} },
			wantOps: 2,
		},
		"pointer is set": {
			from:    unchanged,
			to:      func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode) },
			wantOps: 1,
		},
		"parent that is empty in the Go type and absent in the text is created": {
			from:    unchanged,
			to:      func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "b"} },
			raw:     `{"kind":"Job","spec":{"template":{"spec":{"containers":[{"name":"trainer"}]}}}}`,
			wantOps: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := newJob(c.from), newJob(c.to)
			raw := []byte(c.raw)
			if c.raw == "" {
				raw = marshalJSON(t, before)
			}
			ops := injection.Diff(raw, before, after)
			if len(ops) != c.wantOps {
				t.Errorf("Diff() returned %d operations, want %d: %v", len(ops), c.wantOps, ops)
			}
			if diff := cmp.Diff(after, applyPatch(t, raw, ops)); diff != "" {
				t.Errorf("patched object (-want +got):\n%s", diff)
			}
		})
	}
}

// newJob returns a Job with one container and the given change.
func newJob(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{}
	j.Kind = "Job"
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
	change(j)
	return j
}

func marshalJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// applyPatch returns the Job that results from applying the operations to raw.
func applyPatch(t *testing.T, raw []byte, ops any) *batchv1.Job {
	t.Helper()
	text := marshalJSON(t, ops)
	if string(text) == "null" {
		text = []byte("[]")
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := p.Apply(raw)
	if err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	job := &batchv1.Job{}
	if err := json.Unmarshal(patched, job); err != nil {
		t.Fatal(err)
	}
	return job
}

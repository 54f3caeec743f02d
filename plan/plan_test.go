package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/plan"
)

func TestMerge(t *testing.T) {
	a := plan.Plan{By: "a", Env: []plan.Env{plan.Value("RANK", "0")}}
	for name, c := range map[string]struct {
		reason string
		with   plan.Plan
		want   string // part of the error; empty for none
	}{
		"apart":          {"", plan.Plan{By: "b", Env: []plan.Env{plan.Value("SIZE", "1")}}, ""},
		"same variable":  {"two injectors that claim one variable would overwrite each other", plan.Plan{By: "b", Env: []plan.Env{plan.Value("RANK", "1")}}, "variable RANK is claimed by a and by b"},
		"twice in one":   {"", plan.Plan{By: "b", PodLabels: []plan.Label{{Name: "l"}, {Name: "l"}}}, "label l is claimed by b and by b"},
		"another kind":   {"a label may bear a variable's name", plan.Plan{By: "b", PodLabels: []plan.Label{{Name: "RANK"}}}, ""},
		"same resources": {"", plan.Plan{By: "b", Resources: []plan.Resource{{Name: "r"}, {Name: "r"}}}, "resource r"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Merge(a, c.with)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.reason, err)
			case c.want == "" && got.By != "a":
				t.Errorf("the merged plan is by %q, want the first one's name", got.By)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.want)
			}
		})
	}
}

// TestDiff changes objects as the applier does, and as it does not, and lets the
// patch lead from one text to the other.
func TestDiff(t *testing.T) {
	env := func(names ...string) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			c := &j.Spec.Template.Spec.Containers[0]
			c.Env = nil
			for _, n := range names {
				c.Env = append(c.Env, corev1.EnvVar{Name: n, Value: "of " + n})
			}
		}
	}
	for name, c := range map[string]struct {
		reason string
		from   func(*batchv1.Job)
		to     func(*batchv1.Job)
		ops    int // how many operations; a patch that grows with the object is slow
	}{
		"nothing":        {"", env("A"), env("A"), 0},
		"first variable": {"a list that is not there is made", env(), env("A"), 1},
		"appended":       {"", env("A", "B"), env("A", "B", "C", "D"), 2},
		"put first":      {"what follows is not rewritten", env("A", "B"), env("X", "Y", "A", "B"), 2},
		"removed":        {"", env("A", "B", "C"), env("B"), 2},
		"all removed":    {"", env("A"), env(), 1},
		"moved":          {"", env("A", "B", "C"), env("C", "A", "B"), 2},
		"reversed":       {"", env("A", "B", "C"), env("C", "B", "A"), 4},
		"twice the name": {"a name may stand twice", env("A", "A", "B"), env("A", "A", "X", "B"), 1},
		"escaped keys": {"a key with a slash and a tilde is one key", func(j *batchv1.Job) { j.Labels = map[string]string{"x/y~z": "1"} },
			func(j *batchv1.Job) { j.Labels = map[string]string{"x/y~z": "2", "a~1/b": "3"} }, 2},
		"pointer": {"", func(*batchv1.Job) {}, func(j *batchv1.Job) { j.Spec.CompletionMode = new(batchv1.CompletionMode) }, 1},
		"empty parent": {"our types write an empty metadata that the text need not have", func(*batchv1.Job) {},
			func(j *batchv1.Job) { j.Spec.Template.Labels = map[string]string{"a": "b"} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := job(c.from), job(c.to)
			raw := []byte(`{"kind":"Job","spec":{"template":{"spec":{"containers":[{"name":"trainer"}]}}}}`)
			if text, err := json.Marshal(before); err != nil {
				t.Fatal(err)
			} else if name != "empty parent" {
				raw = text
			}
			ops := plan.Diff(raw, before, after)
			if len(ops) != c.ops {
				t.Errorf("%s: %d operations, want %d: %v", c.reason, len(ops), c.ops, ops)
			}
			if diff := cmp.Diff(after, patched(t, raw, ops)); diff != "" {
				t.Errorf("%s (-want +patched):\n%s", c.reason, diff)
			}
		})
	}
}

func job(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{}
	j.Kind = "Job"
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
	change(j)
	return j
}

func patched(t *testing.T, raw []byte, ops any) *batchv1.Job {
	t.Helper()
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) == "null" {
		text = []byte("[]")
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = p.Apply(raw); err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	out := &batchv1.Job{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

package webhook_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/internal/webhook"
	"rollcall.training/plan"
)

// TestStatefulSetUpdates sends the updates of different clients through both endpoints.
func TestStatefulSetUpdates(t *testing.T) {
	manifest := newStatefulSet(t)
	olderRelease := injectors.NewEngine(injectors.Registry{olderPyTorch{}}, gang.Config{})
	replaceWithManifest := func(_, manifest *appsv1.StatefulSet) *appsv1.StatefulSet { return manifest }
	scaleTo := func(replicas int32) func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
		return func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
			live.Spec.Replicas = &replicas
			return live
		}
	}
	addLabel := func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
		live.Labels["team"] = "a"
		return live
	}
	for name, c := range map[string]struct {
		creator       *injectors.Engine // admits the creation, nil means this release
		update        func(live, manifest *appsv1.StatefulSet) *appsv1.StatefulSet
		wantWorldSize string
		// wantSame requires an unchanged pod template.
		wantSame bool
		// ignoreEnvOrder ignores the order of variables in that comparison.
		ignoreEnvOrder bool
	}{
		"label of the user is not an input of the injection": {
			update:        addLabel,
			wantWorldSize: "2",
			wantSame:      true,
		},
		"kubectl replace sends a manifest without injection": {
			update:        replaceWithManifest,
			wantWorldSize: "2",
			wantSame:      true,
		},
		"every rank receives the new size": {
			update:        scaleTo(3),
			wantWorldSize: "3",
		},
		"gang that is scaled to 0 keeps its configuration": {
			update:        scaleTo(0),
			wantWorldSize: "2",
			wantSame:      true,
		},
		"gang is scaled to 0 and edited": {
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				live.Spec.Replicas = ptr.To[int32](0)
				live.Spec.Template.Spec.Containers[0].Image = "example.com/train:2"
				return live
			},
			wantWorldSize: "2",
		},
		"user takes over a default and scales": {
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				setEnv(live, "PYTHONUNBUFFERED", "0")
				live.Spec.Replicas = ptr.To[int32](5)
				return live
			},
			wantWorldSize: "5",
		},
		"deleted required variable is restored": {
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				env := &live.Spec.Template.Spec.Containers[0].Env
				*env = slices.DeleteFunc(*env, func(e corev1.EnvVar) bool { return e.Name == "WORLD_SIZE" })
				return live
			},
			wantWorldSize: "2",
			wantSame:      true,
		},
		"order of the user is preserved": {
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				env := live.Spec.Template.Spec.Containers[0].Env
				live.Spec.Template.Spec.Containers[0].Env = append(slices.Clone(env[1:]), env[0])
				return live
			},
			wantWorldSize:  "2",
			wantSame:       true,
			ignoreEnvOrder: true,
		},
		"upgrade of Rollcall does not change a running gang": {
			creator:       olderRelease,
			update:        addLabel,
			wantWorldSize: "two",
			wantSame:      true,
		},
		"upgrade of Rollcall and an update without injection": {
			creator:       olderRelease,
			update:        replaceWithManifest,
			wantWorldSize: "two",
			wantSame:      true,
		},
		"after a changed input, the new release injects": {
			creator:       olderRelease,
			update:        scaleTo(3),
			wantWorldSize: "3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			creator := c.creator
			if creator == nil {
				creator = newEngine()
			}
			old := admitStatefulSet(t, creator, nil, manifest)
			updated := admitStatefulSet(t, newEngine(), old, c.update(old.DeepCopy(), manifest.DeepCopy()))
			if _, stale := envByName(updated)["SINCE_REMOVED"]; stale && (!c.wantSame || c.ignoreEnvOrder) {
				t.Error("a variable of the older release remains")
			}
			if got := envByName(updated)["WORLD_SIZE"]; got != c.wantWorldSize {
				t.Errorf("WORLD_SIZE = %q, want %q", got, c.wantWorldSize)
			}
			if c.ignoreEnvOrder {
				sortEnv(old)
				sortEnv(updated)
			}
			if diff := cmp.Diff(old.Spec.Template, updated.Spec.Template); c.wantSame != (diff == "") {
				t.Errorf("the template changed: %t, want %t:\n%s", diff != "", !c.wantSame, diff)
			}
		})
	}
}

func setEnv(set *appsv1.StatefulSet, name, value string) {
	env := set.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		if env[i].Name == name {
			env[i].Value = value
		}
	}
}

func sortEnv(set *appsv1.StatefulSet) {
	slices.SortFunc(set.Spec.Template.Spec.Containers[0].Env, func(a, b corev1.EnvVar) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// TestEnvMovesBeforeReference checks that an injected variable moves before a variable of the user that
// refers to it. kubectl apply inserts new variables at the start of the list.
func TestEnvMovesBeforeReference(t *testing.T) {
	live := admitStatefulSet(t, newEngine(), nil, newStatefulSet(t))
	changed := live.DeepCopy()
	env := &changed.Spec.Template.Spec.Containers[0].Env
	*env = slices.Insert(*env, 0, corev1.EnvVar{Name: "RUN", Value: "run-$(RANK)"})
	updated := admitStatefulSet(t, newEngine(), live, changed)
	index := func(name string) int {
		return slices.IndexFunc(updated.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
			return e.Name == name
		})
	}
	if rank, run := index("RANK"), index("RUN"); rank < 0 || rank > run {
		t.Errorf("RANK has index %d and RUN, which refers to RANK, has index %d", rank, run)
	}
}

func envByName(set *appsv1.StatefulSet) map[string]string {
	out := map[string]string{}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

// olderPyTorch is the injector of a release with different variables and values.
type olderPyTorch struct{ pytorch.Injector }

func (olderPyTorch) Plan(gang.Gang) plan.Plan {
	return plan.Plan{Env: []plan.Env{
		{EnvVar: corev1.EnvVar{Name: "WORLD_SIZE", Value: "two"}},
		{EnvVar: corev1.EnvVar{Name: "SINCE_REMOVED", Value: "yes"}},
	}}
}

// admitStatefulSet sends a StatefulSet through both endpoints. The parameter old is nil for a creation.
func admitStatefulSet(t *testing.T, e *injectors.Engine, old, set *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	operation, oldRaw := admissionv1.Create, []byte(nil)
	if old != nil {
		operation, oldRaw = admissionv1.Update, marshalJSON(t, old)
	}
	raw := marshalJSON(t, set)
	r := webhook.NewMutator(e, nil).Handle(t.Context(), newRequest(operation, gang.StatefulSet, oldRaw, raw))
	if !r.Allowed {
		t.Fatalf("the mutator denied the StatefulSet: %s", r.Result.Message)
	}
	raw = applyPatch(t, raw, r)
	req := newRequest(operation, gang.StatefulSet, oldRaw, raw)
	if r := webhook.NewValidator(e, nil).Handle(t.Context(), req); !r.Allowed {
		t.Fatalf("the validator denied the StatefulSet: %s", r.Result.Message)
	}
	out := &appsv1.StatefulSet{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

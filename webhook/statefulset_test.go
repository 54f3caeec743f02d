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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/plan"
	"rollcall.training/webhook"
)

// TestStatefulSetUpdates plays the clients that update a StatefulSet.
func TestStatefulSetUpdates(t *testing.T) {
	user := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2),
			Template: conformance.Workload(t, []byte(plainJob)).Job.Spec.Template,
		},
	}
	for name, c := range map[string]struct {
		reason string
		first  *injectors.Engine // admits the creation; nil means this release
		change func(fromLive, fromUser *appsv1.StatefulSet) *appsv1.StatefulSet
		world  string // WORLD_SIZE afterwards
		same   bool   // the pod template does not change
		// reordered: it changes in the order of variables alone
		reordered bool
	}{
		"a label of the workload's own": {
			reason: "nothing that injection reads has moved",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Labels["team"] = "a"; return l },
			world:  "2", same: true,
		},
		"replaced by the user's manifest": {
			reason: "kubectl replace sends no injection",
			change: func(_, u *appsv1.StatefulSet) *appsv1.StatefulSet { return u },
			world:  "2", same: true,
		},
		"scaled": {
			reason: "every rank has to know the new size",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Spec.Replicas = ptr.To[int32](3); return l },
			world:  "3",
		},
		"scaled to nothing": {
			reason: "a gang that is held back comes back as the same gang",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Spec.Replicas = ptr.To[int32](0); return l },
			world:  "2", same: true,
		},
		"held back and edited": {
			reason: "scale down, edit, scale up is how sets are changed",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				l.Spec.Replicas, l.Spec.Template.Spec.Containers[0].Image = ptr.To[int32](0), "example.com/train:2"
				return l
			},
			world: "2",
		},
		"a tunable edited and scaled": {
			reason: "one edited place disowns that place and no other",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				setEnv(l, "PYTHONUNBUFFERED", "0")
				l.Spec.Replicas = ptr.To[int32](5)
				return l
			},
			world: "5",
		},
		"a variable of ours deleted": {
			reason: "what the ranks need comes back",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				env := &l.Spec.Template.Spec.Containers[0].Env
				*env = slices.DeleteFunc(*env, func(e corev1.EnvVar) bool { return e.Name == "WORLD_SIZE" })
				return l
			},
			world: "2", same: true,
		},
		"entries put in another order": {
			reason: "the user's order is the user's",
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				env := l.Spec.Template.Spec.Containers[0].Env
				l.Spec.Template.Spec.Containers[0].Env = append(slices.Clone(env[1:]), env[0])
				return l
			},
			world: "2", reordered: true,
		},
		"made by an older release": {
			reason: "an upgrade of Rollcall must not restart a gang: what was injected stays, although this release would choose otherwise",
			first:  injectors.New(injectors.Registry{olderPyTorch{}}, gang.Config{}),
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Labels["team"] = "b"; return l },
			world:  "two", same: true,
		},
		"made by an older release and replaced": {
			reason: "the same when the update brings no injection",
			first:  injectors.New(injectors.Registry{olderPyTorch{}}, gang.Config{}),
			change: func(_, u *appsv1.StatefulSet) *appsv1.StatefulSet { return u },
			world:  "two", same: true,
		},
		"made by an older release and scaled": {
			reason: "the user's inputs moved, so this release decides anew",
			first:  injectors.New(injectors.Registry{olderPyTorch{}}, gang.Config{}),
			change: func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Spec.Replicas = ptr.To[int32](3); return l },
			world:  "3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := c.first
			if first == nil {
				first = engine()
			}
			old := update(t, first, nil, user)
			updated := update(t, engine(), old, c.change(old.DeepCopy(), user.DeepCopy()))
			if _, stale := envOf(updated)["SINCE_REMOVED"]; stale && !c.same {
				t.Errorf("%s: a variable of the older release is left", c.reason)
			}
			if got := envOf(updated)["WORLD_SIZE"]; got != c.world {
				t.Errorf("%s: WORLD_SIZE is %q, want %q", c.reason, got, c.world)
			}
			if c.reordered {
				sortEnv(old)
				sortEnv(updated)
				c.same = true
			}
			if diff := cmp.Diff(old.Spec.Template, updated.Spec.Template); c.same != (diff == "") {
				t.Errorf("%s: template changed is %v:\n%s", c.reason, diff != "", diff)
			}
		})
	}
}

func setEnv(s *appsv1.StatefulSet, name, value string) {
	for i := range s.Spec.Template.Spec.Containers[0].Env {
		if e := &s.Spec.Template.Spec.Containers[0].Env[i]; e.Name == name {
			e.Value = value
		}
	}
}

func sortEnv(s *appsv1.StatefulSet) {
	slices.SortFunc(s.Spec.Template.Spec.Containers[0].Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
}

// TestReferrerAddedLater: kubectl apply puts a new variable before ours; ours move
// before what refers to them.
func TestReferrerAddedLater(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: conformance.Workload(t, []byte(plainJob)).Job.Spec.Template},
	}
	live := update(t, engine(), nil, set)
	changed := live.DeepCopy()
	env := &changed.Spec.Template.Spec.Containers[0].Env
	*env = slices.Insert(*env, 0, corev1.EnvVar{Name: "RUN", Value: "run-$(RANK)"})
	updated := update(t, engine(), live, changed)
	index := func(name string) int {
		return slices.IndexFunc(updated.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == name })
	}
	if rank, run := index("RANK"), index("RUN"); rank < 0 || rank > run {
		t.Errorf("RANK stands at %d, RUN, which refers to it, at %d", rank, run)
	}
}

func envOf(s *appsv1.StatefulSet) map[string]string {
	out := map[string]string{}
	for _, e := range s.Spec.Template.Spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

// olderPyTorch stands for a release that chose other variables and values.
type olderPyTorch struct{ pytorch.Injector }

func (olderPyTorch) Plan(gang.Gang) plan.Plan {
	return plan.Plan{Env: []plan.Env{
		{EnvVar: corev1.EnvVar{Name: "WORLD_SIZE", Value: "two"}},
		{EnvVar: corev1.EnvVar{Name: "SINCE_REMOVED", Value: "yes"}},
	}}
}

// update sends a StatefulSet through both endpoints; old is nil for a creation.
func update(t *testing.T, e *injectors.Engine, old, s *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	op, oldRaw := admissionv1.Create, []byte(nil)
	if old != nil {
		op, oldRaw = admissionv1.Update, marshal(t, old)
	}
	raw := marshal(t, s)
	r := webhook.NewMutator(e).Handle(t.Context(), request(op, gang.StatefulSet, oldRaw, raw))
	if !r.Allowed {
		t.Fatalf("refused: %s", r.Result.Message)
	}
	raw = apply(t, raw, r)
	if r := webhook.NewValidator(clientgoscheme.Scheme, e).Handle(t.Context(), request(op, gang.StatefulSet, oldRaw, raw)); !r.Allowed {
		t.Fatalf("refused at the end: %s", r.Result.Message)
	}
	out := &appsv1.StatefulSet{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

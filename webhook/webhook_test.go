package webhook_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/conformance"
	"rollcall.training/injectors/pytorch"
	"rollcall.training/plan"
	"rollcall.training/webhook"
)

func engine() *injectors.Engine { return injectors.New(injectors.Builtin(), gang.Config{}) }

// request wraps objects as the API server would; old is nil but for updates.
func request(op admissionv1.Operation, kind gang.Kind, old, object []byte) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: op, Namespace: "default",
		Kind:      metav1.GroupVersionKind{Kind: string(kind)},
		Object:    runtime.RawExtension{Raw: object},
		OldObject: runtime.RawExtension{Raw: old},
	}}
}

func toJSON(t *testing.T, manifest []byte) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// apply does to the text what the API server does with a patch.
func apply(t *testing.T, raw []byte, r admission.Response) []byte {
	t.Helper()
	if len(r.Patches) == 0 {
		return raw
	}
	text, err := json.Marshal(r.Patches)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply(raw)
	if err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	return out
}

func TestGoldens(t *testing.T) {
	conformance.Goldens(t, func(t *testing.T, manifest []byte) conformance.Outcome {
		raw := toJSON(t, manifest)
		w := conformance.Workload(t, manifest)
		if w.Meta().Namespace == "" { // the API server sets it before admission
			w.Meta().Namespace = "default"
			raw = withNamespace(t, raw)
		}
		r := webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, w.Kind(), nil, raw))
		out := conformance.Outcome{Warnings: r.Warnings}
		if !r.Allowed {
			if r.Result.Code != http.StatusUnprocessableEntity || r.Result.Reason != metav1.StatusReasonInvalid {
				t.Errorf("denied with %d %s, want 422 Invalid", r.Result.Code, r.Result.Reason)
			}
			for _, c := range r.Result.Details.Causes {
				out.Denials = append(out.Denials, c.Field+": "+c.Message)
			}
			return out
		}
		out.Object = apply(t, raw, r)
		validated := webhook.NewValidator(clientgoscheme.Scheme, engine()).
			Handle(t.Context(), request(admissionv1.Create, w.Kind(), nil, out.Object))
		if !validated.Allowed {
			t.Errorf("the validator refuses what the mutator made: %s", validated.Result.Message)
		}
		return out
	})
}

func withNamespace(t *testing.T, raw []byte) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch(raw, []byte(`{"metadata":{"namespace":"default"}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const plainJob = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"default"},
"spec":{"parallelism":2,"completions":2,"template":{"spec":{"containers":[{"name":"trainer"}]}}}}`

func labelled(t *testing.T, raw string) []byte {
	t.Helper()
	out, err := jsonpatch.MergePatch([]byte(raw), []byte(`{"metadata":{"labels":{"rollcall.training/framework":"pytorch"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJobUpdates(t *testing.T) {
	admitted := func(t *testing.T) []byte {
		t.Helper()
		raw := labelled(t, plainJob)
		return apply(t, raw, webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw)))
	}
	merge := func(t *testing.T, raw []byte, patch string) []byte {
		t.Helper()
		out, err := jsonpatch.MergePatch(raw, []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	elastic := func(t *testing.T) []byte {
		t.Helper()
		raw := merge(t, labelled(t, plainJob), `{"metadata":{"annotations":{"rollcall.training/elastic":"2:4"}}}`)
		return apply(t, raw, webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw)))
	}
	for name, c := range map[string]struct {
		reason   string
		old, now func(t *testing.T) []byte
		want     string // part of the one warning; empty for none
	}{
		"label comes late": {
			reason: "a running Job's template cannot change, so the user must hear that the label does nothing",
			old:    func(*testing.T) []byte { return []byte(plainJob) },
			now:    func(t *testing.T) []byte { return labelled(t, plainJob) },
			want:   "nothing was injected",
		},
		"label was late before": {
			reason: "controllers update the Job many times; the warning is for the one who sets the label",
			old:    func(t *testing.T) []byte { return labelled(t, plainJob) },
			now:    func(t *testing.T) []byte { return labelled(t, plainJob) },
		},
		"label removed": {
			reason: "the injection stays but nobody follows the gang",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"labels":{"rollcall.training/framework":null}}}`)
			},
			want: "no longer follows",
		},
		"port changed": {
			reason: "an annotation of an existing Job has no effect",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/port":"29500"}}}`)
			},
			want: "rollcall.training/port",
		},
		"parallelism changed": {
			reason: "the ranks know another size",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"spec":{"parallelism":3,"completions":3}}`)
			},
			want: "spec.parallelism",
		},
		"restarts changed": {
			reason: "what is heeded while the gang runs may change while it does",
			old:    admitted,
			now: func(t *testing.T) []byte {
				return merge(t, admitted(t), `{"metadata":{"annotations":{"rollcall.training/max-restarts":"10"}}}`)
			},
		},
		"elastic, within bounds": {
			reason: "such a gang takes ranks in and lets them go",
			old:    elastic,
			now:    func(t *testing.T) []byte { return merge(t, elastic(t), `{"spec":{"parallelism":4,"completions":4}}`) },
		},
		"elastic, out of bounds": {
			reason: "the ranks were told the bounds",
			old:    elastic,
			now:    func(t *testing.T) []byte { return merge(t, elastic(t), `{"spec":{"parallelism":5,"completions":5}}`) },
			want:   "not within 2:4",
		},
		"suspended": {
			reason: "suspend is how queues and restarts work",
			old:    admitted,
			now:    func(t *testing.T) []byte { return merge(t, admitted(t), `{"spec":{"suspend":true}}`) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(admissionv1.Update, gang.Job, c.old(t), c.now(t))
			if r := webhook.NewMutator(engine()).Handle(t.Context(), req); !r.Allowed || len(r.Patches) > 0 {
				t.Errorf("%s: an existing Job was patched or refused: %+v", c.reason, r)
			}
			r := webhook.NewValidator(clientgoscheme.Scheme, engine()).Handle(t.Context(), req)
			if !r.Allowed {
				t.Fatalf("%s: refused: %s", c.reason, r.Result.Message)
			}
			got := strings.Join(r.Warnings, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: warnings %q, want one with %q", c.reason, got, c.want)
			}
		})
	}
}

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

// TestPhaseBeginsAtAdmission: a new gang is Pending, whatever its manifest says.
func TestPhaseBeginsAtAdmission(t *testing.T) {
	for _, stale := range []string{"", "Succeeded"} {
		raw := labelled(t, plainJob)
		if stale != "" {
			var err error
			if raw, err = jsonpatch.MergePatch(raw, []byte(`{"metadata":{"labels":{"rollcall.training/phase":"`+stale+`"}}}`)); err != nil {
				t.Fatal(err)
			}
		}
		r := webhook.NewMutator(engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, raw))
		var job batchv1.Job
		if err := json.Unmarshal(apply(t, raw, r), &job); err != nil {
			t.Fatal(err)
		}
		if got := job.Labels[gang.LabelPhase]; got != string(gang.Pending) {
			t.Errorf("with %q in the manifest, the phase is %q", stale, got)
		}
	}
}

// TestValidatorRefusesStrippedUpdate: what the mutating webhook would restore must
// be there at the end.
func TestValidatorRefusesStrippedUpdate(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: conformance.Workload(t, []byte(plainJob)).Job.Spec.Template},
	}
	live := update(t, engine(), nil, set)
	r := webhook.NewValidator(clientgoscheme.Scheme, engine()).
		Handle(t.Context(), request(admissionv1.Update, gang.StatefulSet, marshal(t, live), marshal(t, set)))
	if r.Allowed {
		t.Error("an update that lost its injection was let through")
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

func marshal(t *testing.T, obj any) []byte {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestValidatorRefusesLostInjection(t *testing.T) {
	job := &batchv1.Job{}
	if err := json.Unmarshal(labelled(t, plainJob), job); err != nil {
		t.Fatal(err)
	}
	r := webhook.NewValidator(clientgoscheme.Scheme, engine()).Handle(t.Context(), request(admissionv1.Create, gang.Job, nil, marshal(t, job)))
	if r.Allowed || r.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("a labelled Job without injection was allowed, or refused with another code: %+v", r)
	}
}

func TestUnreadableRequests(t *testing.T) {
	for name, req := range map[string]admission.Request{
		"no object":      request(admissionv1.Create, gang.Job, nil, nil),
		"another kind":   request(admissionv1.Create, "Pod", nil, []byte(`{}`)),
		"wrong type":     request(admissionv1.Create, gang.Job, nil, []byte(`{"spec":{"parallelism":"two"}}`)),
		"old unreadable": request(admissionv1.Update, gang.StatefulSet, []byte(`[`), []byte(`{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.NewMutator(engine()).Handle(t.Context(), req)
			if r.Allowed || r.Result.Code != http.StatusBadRequest {
				t.Errorf("want 400, got %+v", r.Result)
			}
		})
	}
}

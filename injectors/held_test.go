package injectors_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/plan"
)

var rank = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}}}

func labelled(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{gang.LabelFramework: "pytorch"}, Annotations: annotations}
}

// stopped is a set of two that Rollcall scaled to 0 in a phase, and its user's manifest.
func stopped(t *testing.T, engine *injectors.Engine, phase gang.Phase) (live, manifest *appsv1.StatefulSet) {
	t.Helper()
	manifest = &appsv1.StatefulSet{ObjectMeta: labelled("train", nil), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: *rank.DeepCopy()}}
	live = manifest.DeepCopy()
	if _, err := engine.Admit(gang.Workload{StatefulSet: live}); err != nil {
		t.Fatal(err)
	}
	text, err := gang.Status{Phase: phase, Stopped: true}.Text()
	if err != nil {
		t.Fatal(err)
	}
	live.Annotations[gang.AnnotationStatus], live.Spec.Replicas = text, ptr.To[int32](0)
	return live, manifest
}

// TestAppliedAgain: a manifest that is applied again does not bring a gang back that
// has ended, or that restarts; whoever scales it does.
func TestAppliedAgain(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		reason string
		phase  gang.Phase
		change func(live, manifest *appsv1.StatefulSet) *appsv1.StatefulSet
		want   int32
		warns  string
	}{
		"replaced":   {"GitOps does so every few minutes", gang.Failed, func(_, m *appsv1.StatefulSet) *appsv1.StatefulSet { return m }, 0, "kubectl scale statefulset/train --replicas=2"},
		"patched":    {"kubectl apply sends what it knows", gang.Succeeded, func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet { l.Spec.Replicas = ptr.To[int32](2); return l }, 0, "stays 0"},
		"restarting": {"the back-off is not cut short", gang.Restarting, func(_, m *appsv1.StatefulSet) *appsv1.StatefulSet { return m }, 0, "begins anew"},
		"let go": {"the reconciler says in the same write that it holds it no more", gang.Restarting, func(l, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
			l.Spec.Replicas, l.Annotations[gang.AnnotationStatus] = ptr.To[int32](2), `{"phase":"Pending"}`
			return l
		}, 2, ""},
		"resized": {"another size is another wish", gang.Failed, func(_, m *appsv1.StatefulSet) *appsv1.StatefulSet { m.Spec.Replicas = ptr.To[int32](3); return m }, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live, manifest := stopped(t, engine, c.phase)
			updated := c.change(live.DeepCopy(), manifest)
			result, err := engine.Readmit(live, updated)
			if err != nil {
				t.Fatal(err)
			}
			if *updated.Spec.Replicas != c.want {
				t.Errorf("%s: %d replicas, want %d", c.reason, *updated.Spec.Replicas, c.want)
			}
			if got := strings.Join(result.Warnings, "\n"); (c.warns == "") != (got == "") || !strings.Contains(got, c.warns) {
				t.Errorf("%s: warnings %q, want one with %q", c.reason, got, c.warns)
			}
		})
	}
}

// TestReplacedWhileStopped: a manifest that was changed and replaces a set while its gang restarts makes no other gang of
// it: Rollcall lets it go again, with the size that it had.
func TestReplacedWhileStopped(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	live, manifest := stopped(t, engine, gang.Restarting)
	manifest.Spec.Template.Spec.Containers[0].Image = "example.com/train:2"
	if _, err := engine.Readmit(live, manifest); err != nil {
		t.Fatal(err)
	}
	w := gang.Workload{StatefulSet: manifest}
	if s := gang.StatusOf(w); s.Phase != gang.Restarting || !s.Stopped || *manifest.Spec.Replicas != 0 {
		t.Errorf("it is %s, held by Rollcall: %v, with %d replicas", s.Phase, s.Stopped, *manifest.Spec.Replicas)
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record.Size != 2 {
		t.Errorf("it comes back with %d ranks, %v", record.Size, err)
	}
	for _, e := range manifest.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "WORLD_SIZE" && e.Value != "2" {
			t.Errorf("its ranks are told that they are %s", e.Value)
		}
	}
}

// TestCopiedFromAnEnded: a manifest that was copied from a live object is of a gang that
// has not begun.
func TestCopiedFromAnEnded(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	failed, err := gang.Status{Phase: gang.Failed, Cause: &gang.Fall{Reason: "Error"}}.Text()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{gang.AnnotationStatus: failed}), Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), ActiveDeadlineSeconds: ptr.To[int64](0), Template: *rank.DeepCopy()}}
	if _, err := engine.Inject(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		t.Error("the new Job would fail at once, by the deadline that ended the old one")
	}
	live, _ := stopped(t, engine, gang.Failed)
	if _, err := engine.Inject(gang.Workload{StatefulSet: live}); err != nil {
		t.Fatal(err)
	}
	if *live.Spec.Replicas != 2 {
		t.Errorf("the new set has %d replicas, want 2", *live.Spec.Replicas)
	}
}

// TestHeldBackFromTheStart: a member that is created with no replicas has the size that
// its annotations speak of.
func TestHeldBackFromTheStart(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	for name, annotations := range map[string]map[string]string{
		"train-worker": {gang.AnnotationRoles: "master=1,worker=4"}, "train": {gang.AnnotationElastic: "2:4"},
	} {
		set := &appsv1.StatefulSet{ObjectMeta: labelled(name, annotations), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Template: *rank.DeepCopy()}}
		if _, err := engine.Inject(gang.Workload{StatefulSet: set}); err != nil {
			t.Errorf("%v: %v", annotations, err)
		}
	}
}

// TestElasticTemplateStays: a change of size within the bounds rolls no pod of a gang
// that can go on with it.
func TestElasticTemplateStays(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	for framework, annotations := range map[string]map[string]string{
		"pytorch": {gang.AnnotationElastic: "2:4"},
		"horovod": {gang.AnnotationElastic: "2:4", gang.AnnotationRoles: "launcher=1,worker=2"},
	} {
		live := &appsv1.StatefulSet{ObjectMeta: labelled("train-worker", annotations), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](2), Template: *rank.DeepCopy()}}
		live.Labels[gang.LabelFramework], live.Labels[gang.LabelRole] = framework, "worker"
		if _, err := engine.Admit(gang.Workload{StatefulSet: live}); err != nil {
			t.Fatal(err)
		}
		grown := live.DeepCopy()
		grown.Spec.Replicas = ptr.To[int32](3)
		if _, err := engine.Readmit(live, grown); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live.Spec.Template, grown.Spec.Template); diff != "" {
			t.Errorf("%s: the template changed:\n%s", framework, diff)
		}
	}
}

// TestHold: a patch that changes nothing of a Job which Rollcall has suspended for a
// restart means that its user wants it suspended.
func TestHold(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	status := func(s gang.Status) string {
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	held := gang.Status{Phase: gang.Restarting, Stopped: true, Attempt: 1, Cause: &gang.Fall{Rank: 1, Reason: "Error"}}
	for name, c := range map[string]struct {
		reason string
		status gang.Status
		change func(old, updated *batchv1.Job)
		want   gang.Reason
	}{
		"nothing":      {"", held, func(_, _ *batchv1.Job) {}, gang.ReasonHeld},
		"who wrote it": {"that is none of the Job", held, func(_, u *batchv1.Job) { u.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}} }, gang.ReasonHeld},
		"a label":      {"it may be about that alone", held, func(_, u *batchv1.Job) { u.Labels["a"] = "b" }, gang.ReasonTooLate},
		"let go":       {"as Kueue does", held, func(_, u *batchv1.Job) { u.Spec.Suspend = ptr.To(false) }, gang.ReasonTooLate},
		"runs":         {"it is not suspended", held, func(o, u *batchv1.Job) { o.Spec.Suspend, u.Spec.Suspend = nil, nil }, gang.ReasonTooLate},
		"its own":      {"it is its user's already", gang.Status{Phase: gang.Suspended}, func(_, _ *batchv1.Job) {}, gang.ReasonTooLate},
		"held already": {"", gang.Status{Phase: gang.Restarting, Attempt: 1}, func(_, _ *batchv1.Job) {}, gang.ReasonTooLate},
	} {
		t.Run(name, func(t *testing.T) {
			old := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{gang.AnnotationStatus: status(c.status)}), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
			updated := old.DeepCopy()
			c.change(old, updated)
			sent := updated.DeepCopy()
			r := engine.Hold(old, updated)
			if r.Reason != c.want || (len(r.Warnings) > 0) != (c.want == gang.ReasonHeld) {
				t.Errorf("%s: %s, warnings %q", c.reason, r.Reason, r.Warnings)
			}
			want := c.status
			if c.want == gang.ReasonHeld {
				want.Stopped = false
				sent.Annotations[gang.AnnotationStatus] = status(want)
			}
			if diff := cmp.Diff(sent, updated); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestHoldQueued: a Job in a queue of Kueue stays suspended for as long as Rollcall stops it,
// and bears the number of its attempt when it is let go.
func TestHoldQueued(t *testing.T) {
	engine := injectors.New(injectors.Builtin(), gang.Config{})
	stopped := gang.Status{Phase: gang.Restarting, Stopped: true, Attempt: 2}
	waits := gang.Status{Phase: gang.Suspended, Attempt: 2}
	for name, c := range map[string]struct {
		reason    string
		was, is   gang.Status
		change    func(old, updated *batchv1.Job)
		want      gang.Reason
		suspended bool
		attempt   string
	}{
		"let go by Kueue":    {"its old pods may be there yet", stopped, stopped, nil, gang.ReasonHeld, true, "1"},
		"let go by Rollcall": {"where there is no Kueue", stopped, gang.Status{Phase: gang.Pending, Attempt: 2}, nil, gang.ReasonNumbered, false, "2"},
		"admitted again":     {"Kueue restored the template with which the Job began", waits, waits, nil, gang.ReasonNumbered, false, "2"},
		"started":            {"its template is immutable", waits, waits, func(o, _ *batchv1.Job) { o.Status.StartTime = &metav1.Time{} }, gang.ReasonTooLate, false, "1"},
		"numbered":           {"", gang.Status{Attempt: 1}, gang.Status{Attempt: 1}, nil, gang.ReasonTooLate, false, "1"},
		"nothing":            {"Kueue may write what is there already", stopped, stopped, func(_, u *batchv1.Job) { u.Spec.Suspend = ptr.To(true) }, gang.ReasonTooLate, true, "1"},
		"runs":               {"", waits, waits, func(o, _ *batchv1.Job) { o.Spec.Suspend = nil }, gang.ReasonTooLate, false, "1"},
		"ended":              {"that ends it, and takes its pods away", stopped, gang.Status{Phase: gang.Failed, Stopped: true}, nil, gang.ReasonTooLate, false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			job := func(s gang.Status, suspend bool) *batchv1.Job {
				text, err := s.Text()
				if err != nil {
					t.Fatal(err)
				}
				j := &batchv1.Job{ObjectMeta: labelled("train", map[string]string{gang.AnnotationStatus: text}), Spec: batchv1.JobSpec{Suspend: &suspend}}
				j.Labels[gang.LabelQueue], j.Labels[gang.LabelPhase] = "team", string(s.Phase)
				j.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "1"}
				return j
			}
			old, updated := job(c.was, true), job(c.is, false)
			if c.change != nil {
				c.change(old, updated)
			}
			r := engine.Hold(old, updated)
			if r.Reason != c.want || (len(r.Warnings) > 0) != (c.want == gang.ReasonHeld) {
				t.Errorf("%s: %s, warnings %q", c.reason, r.Reason, r.Warnings)
			}
			if got := updated.Spec.Template.Labels[gang.LabelAttempt]; *updated.Spec.Suspend != c.suspended || got != c.attempt {
				t.Errorf("%s: suspended %v with attempt %s, want %v and %s", c.reason, *updated.Spec.Suspend, got, c.suspended, c.attempt)
			}
		})
	}
}

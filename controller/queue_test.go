package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollcall.training/gang"
)

func stoppedJob(t *testing.T, queue string) *batchv1.Job {
	t.Helper()
	text, err := gang.Status{Phase: gang.Restarting, Attempt: 1, Stopped: true}.Text()
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{}, Annotations: map[string]string{gang.AnnotationStatus: text}},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	if queue != "" {
		j.Labels[gang.LabelQueue] = queue
	}
	j.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "0"}
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: "True"}}
	return j
}

// TestQueued: who lets a Job go that Rollcall has stopped.
func TestQueued(t *testing.T) {
	served := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{kueue.WithVersion("v1beta2").GroupVersion()})
	served.Add(kueue.WithVersion("v1beta2"), apimeta.RESTScopeNamespace)
	for name, c := range map[string]struct {
		reason string
		queue  string
		mapper apimeta.RESTMapper
		want   bool
	}{
		"in a queue": {"", "team", served, true},
		"no queue":   {"it is none of Kueue's", "", served, false},
		"no Kueue":   {"nobody else would ever let it go", "team", apimeta.NewDefaultRESTMapper(nil), false},
	} {
		r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(c.mapper).Build()}
		if got := r.queued(gang.Workload{Job: stoppedJob(t, c.queue)}); got != c.want {
			t.Errorf("%s: %v, want %v; %s", name, got, c.want, c.reason)
		}
	}
}

// TestHandOver: what becomes of a Job in a queue that Rollcall has stopped.
func TestHandOver(t *testing.T) {
	for name, c := range map[string]struct {
		reason  string
		phase   gang.Phase
		kept    bool
		want    wish
		stopped bool
		attempt string
	}{
		"stopping":      {"", gang.Restarting, false, stop, true, "0"},
		"over":          {"it is its queue's from now on", gang.Suspended, false, handOver, false, "1"},
		"beside others": {"which Rollcall lets go itself", gang.Pending, false, handOver, false, "1"},
		"kept":          {"the user of another member holds the gang back", gang.Suspended, true, asIs, true, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := member{Workload: gang.Workload{Job: stoppedJob(t, "team")}, queued: true}
			p := &party{look: &look{}, members: []member{m}, roll: gang.Roll{{Here: true, Seen: m.observe()}}}
			if c.kept {
				p.roll = append(p.roll, gang.Entry{Here: true, Seen: gang.Observation{Set: true, Suspended: true}})
			}
			s := gang.Status{Phase: c.phase, Attempt: 1}
			what := wished(p, m, s.State())
			if what != c.want {
				t.Fatalf("wish %d, want %d: %s", what, c.want, c.reason)
			}
			changed := gang.Workload{Job: m.Job.DeepCopy()}
			change(changed, what, &s, m.told())
			if got := changed.Template().Labels[gang.LabelAttempt]; !*changed.Job.Spec.Suspend || s.Stopped != c.stopped || got != c.attempt {
				t.Errorf("suspended %v, stopped %v, attempt %s; want true, %v, %s: %s", *changed.Job.Spec.Suspend, s.Stopped, got, c.stopped, c.attempt, c.reason)
			}
		})
	}
}

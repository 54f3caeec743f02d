package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// newFailedJob returns a Job of a namespace whose gang restarts because rank 0 failed on node-a.
func newFailedJob(t *testing.T, namespace, avoidNodes string) *batchv1.Job {
	t.Helper()
	job := newRestartingJob(t)
	job.Namespace, job.UID = namespace, "uid-"+job.UID
	if avoidNodes != "" {
		job.Annotations[gang.AnnotationAvoidNodes] = avoidNodes
	}
	status := lifecycle.ReadStatus(gang.Workload{Job: job})
	status.FirstFailure = &failure.Failure{
		Node: "node-a", Container: "trainer", Reason: "Error", ExitCode: 139, Time: testStartTime,
	}
	text, err := status.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus] = text
	return job
}

// preference returns the node affinity of pods that prefer other nodes; nil without nodes.
func preference(nodes ...string) *corev1.Affinity {
	w := gang.Workload{Job: &batchv1.Job{}}
	w.ReplaceSuspectNodes(nil, nodes)
	return w.Template().Spec.Affinity
}

// TestSuspectNode checks that the attempt after a restart prefers other nodes to a node on which gangs of two
// namespaces failed first, and that an Event and the metric report the node.
func TestSuspectNode(t *testing.T) {
	for name, c := range map[string]struct {
		avoidNodes, otherNamespace string
		hidesEvents                bool
		want                       *corev1.Affinity
		wantSuspects, wantEvents   int
	}{
		"gangs of two namespaces": {
			avoidNodes: "auto", otherNamespace: "other", want: preference("node-a"), wantSuspects: 1, wantEvents: 1,
		},
		"a gang that does not avoid nodes":      {otherNamespace: "other", wantSuspects: 1, wantEvents: 1},
		"gangs of one namespace":                {avoidNodes: "auto", otherNamespace: "team"},
		"no permission for Events on the nodes": {otherNamespace: "other", hidesEvents: true, wantSuspects: 1},
	} {
		t.Run(name, func(t *testing.T) {
			other := newFailedJob(t, c.otherNamespace, "")
			other.Name, other.UID = "other", "uid-other"
			w := newTestCluster(t, newFailedJob(t, "team", c.avoidNodes), other)
			w.NodeEvents = !c.hidesEvents
			w.reconcileOnce(t, Request{Namespace: c.otherNamespace, Kind: gang.Job, Name: "other"})
			for range 3 {
				w.reconcileOnce(t, torchRequest)
			}
			if n := len(w.nodeLedger.suspects(w.clock.Now())); n != c.wantSuspects {
				t.Errorf("%d suspects, want %d", n, c.wantSuspects)
			}
			if n := w.countEvents(gang.ReasonNodeSuspected); n != c.wantEvents {
				t.Errorf("%d Events, want %d", n, c.wantEvents)
			}
			job := w.expectJobPhase(t, "train", lifecycle.Pending)
			if diff := cmp.Diff(c.want, job.Spec.Template.Spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			status := lifecycle.ReadStatus(gang.Workload{Job: job})
			if hasRecord := len(status.SuspectNodes) > 0; hasRecord != (c.want != nil) {
				t.Errorf("the status records %v", status.SuspectNodes)
			}
		})
	}
}

// TestFormerSuspect checks that the next restart removes the preference after a day, whether the gang still avoids
// nodes or not.
func TestFormerSuspect(t *testing.T) {
	for name, avoidNodes := range map[string]string{"still avoids nodes": "auto", "avoids no nodes any more": "off"} {
		t.Run(name, func(t *testing.T) {
			job := newFailedJob(t, "team", avoidNodes)
			job.Spec.Template.Spec.Affinity = preference("node-a")
			status := lifecycle.ReadStatus(gang.Workload{Job: job})
			status.SuspectNodes = []string{"node-a"}
			if err := status.WriteTo(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			w := newTestCluster(t, job)
			w.clock.SetTime(testStartTime.Add(25 * time.Hour))
			for range 3 {
				w.reconcileOnce(t, torchRequest)
			}
			if now := w.expectJobPhase(t, "train", lifecycle.Pending); now.Spec.Template.Spec.Affinity != nil {
				t.Errorf("affinity %v", now.Spec.Template.Spec.Affinity)
			}
		})
	}
}

// TestSuspectCausesNoWrite checks that a new suspect does not change a Job that its user suspended.
func TestSuspectCausesNoWrite(t *testing.T) {
	job := newTorchJob(t)
	job.Annotations[gang.AnnotationAvoidNodes] = "auto"
	job.Spec.Suspend = ptr.To(true)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	w := newTestCluster(t, job)
	get := func() string {
		var now batchv1.Job
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil {
			t.Fatal(err)
		}
		return now.ResourceVersion
	}
	for range 3 {
		w.reconcileOnce(t, torchRequest)
	}
	before := get()
	for _, namespace := range []string{"a", "b"} {
		failures := []lifecycle.NodeFailure{{Node: "node-a", Time: testStartTime}}
		w.nodeLedger.record(namespace, namespace, failures, testStartTime)
	}
	if w.reconcileOnce(t, torchRequest); len(w.nodeLedger.suspects(w.clock.Now())) != 1 || get() != before {
		t.Errorf("the suspects are %v; the Job has version %s after the pass and %s before",
			w.nodeLedger.suspects(w.clock.Now()), get(), before)
	}
}

package controller

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
)

var workloadKind = kueue.Version.WithKind(kueue.Kind)

// newQueueCluster returns a test cluster that serves Workloads of Kueue.
func newQueueCluster(t *testing.T, objects ...client.Object) *testCluster {
	t.Helper()
	w := newTestCluster(t, objects...)
	w.QueueGangs = true
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(workloadKind, meta.RESTScopeNamespace)
	w.Reconciler.Client = servingClient{w.Reconciler.Client.(client.WithWatch), mapper}
	return w
}

// newQueuedMembers returns the Jobs of a gang in a queue as the Job controller suspended them.
func newQueuedMembers(t *testing.T) []client.Object {
	t.Helper()
	var out []client.Object
	for _, role := range []string{"ps", "worker"} {
		job := &batchv1.Job{ObjectMeta: newObjectMeta("train-"+role, "tensorflow", role, "ps=2,worker=2")}
		job.Annotations[gang.AnnotationQueue] = "team"
		job.Spec = batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: *podTemplate.DeepCopy(),
		}
		job = admitObject(t, job).(*batchv1.Job)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
		out = append(out, job)
	}
	return out
}

// countResumed returns the number of Jobs of the gang that are not suspended.
func (w *testCluster) countResumed(t *testing.T) (n int) {
	t.Helper()
	var jobs batchv1.JobList
	if err := w.List(t.Context(), &jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		if !ptr.Deref(j.Spec.Suspend, false) {
			n++
		}
	}
	return n
}

// getQueueWorkload returns the Workload of the gang; nil if there is none.
func (w *testCluster) getQueueWorkload(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	out, err := w.getObject(t.Context(), workloadKind, client.ObjectKey{Namespace: "team", Name: "train"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// setConditions writes the conditions that are true in the Workload of the gang.
func (w *testCluster) setConditions(t *testing.T, names ...string) {
	t.Helper()
	workload := w.getQueueWorkload(t)
	var conditions []any
	for _, name := range names {
		conditions = append(conditions, map[string]any{"type": name, "status": "True", "reason": "Preempted",
			"message": "words of Kueue", "lastTransitionTime": testStartTime.Format(time.RFC3339)})
	}
	workload.Object["status"] = map[string]any{"conditions": conditions}
	if err := w.Update(t.Context(), workload); err != nil {
		t.Fatal(err)
	}
}

// observeSuspension writes the status of suspended Jobs as the Job controller does after their pods have terminated.
func (w *testCluster) observeSuspension(t *testing.T) {
	t.Helper()
	var jobs batchv1.JobList
	if err := w.List(t.Context(), &jobs); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		jobs.Items[i].Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
		if err := w.Client.Status().Update(t.Context(), &jobs.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *testCluster) reconcileOften(t *testing.T) {
	t.Helper()
	for range 5 {
		w.reconcileOnce(t, trainRequest)
	}
}

// TestQueuedGang follows a gang through its queue: no member runs before the admission, and none after an eviction.
func TestQueuedGang(t *testing.T) {
	members := newQueuedMembers(t)
	w := newQueueCluster(t, members[0])
	w.reconcileOften(t)
	if w.getQueueWorkload(t) != nil {
		t.Fatal("a Workload exists before all members")
	}
	if err := w.Create(t.Context(), members[1]); err != nil {
		t.Fatal(err)
	}
	w.reconcileOften(t)
	if owners := w.getQueueWorkload(t).GetOwnerReferences(); len(owners) != 2 || w.countResumed(t) != 0 {
		t.Fatalf("the owners are %v, and %d Jobs run", owners, w.countResumed(t))
	}
	w.setConditions(t, "QuotaReserved", "Admitted")
	w.reconcileOften(t)
	if n := w.countResumed(t); n != 2 {
		t.Fatalf("%d Jobs run after the admission", n)
	}
	w.setConditions(t, "QuotaReserved", "Admitted", "Evicted")
	w.reconcileOften(t)
	s, err := kueue.Read(w.getQueueWorkload(t))
	if n := w.countResumed(t); n != 0 || err != nil || !s.MustRelease {
		t.Errorf("%d Jobs run after the eviction; while the pods run, the status is %+v, %v", n, s, err)
	}
	w.observeSuspension(t)
	w.reconcileOften(t)
	if s, err = kueue.Read(w.getQueueWorkload(t)); err != nil || s.MustRelease || s.Admitted {
		t.Errorf("after the pods terminated, the status is %+v, %v", s, err)
	}
	if err := w.Delete(t.Context(), w.getQueueWorkload(t)); err != nil {
		t.Fatal(err)
	}
	w.reconcileOften(t)
	if w.getQueueWorkload(t) == nil {
		t.Error("a deleted Workload was not created again")
	}
}

// TestQueueProblems checks that a gang without a usable queue waits and says why.
func TestQueueProblems(t *testing.T) {
	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(workloadKind)
	foreign.SetNamespace("team")
	foreign.SetName("train")
	for name, test := range map[string]struct {
		cluster func(*testing.T) *testCluster
		want    string
	}{
		"a cluster without Kueue": {want: "does not serve Workloads", cluster: func(t *testing.T) *testCluster {
			return newTestCluster(t, newQueuedMembers(t)...)
		}},
		"a cluster without permission": {want: "does not create Workloads", cluster: func(t *testing.T) *testCluster {
			w := newQueueCluster(t, newQueuedMembers(t)...)
			w.QueueGangs = false
			return w
		}},
		"a Workload of somebody else": {want: "is not of this gang", cluster: func(t *testing.T) *testCluster {
			return newQueueCluster(t, append(newQueuedMembers(t), foreign.DeepCopy())...)
		}},
		"a cluster without its class": {want: "PriorityClass high does not exist", cluster: func(t *testing.T) *testCluster {
			members := newQueuedMembers(t)
			members[0].GetLabels()[kueue.LabelPriorityClass] = "high"
			return newQueueCluster(t, members...)
		}},
	} {
		t.Run("a gang in "+name, func(t *testing.T) {
			w := test.cluster(t)
			w.reconcileOften(t)
			job := &batchv1.Job{}
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train-ps"}, job); err != nil {
				t.Fatal(err)
			}
			status := lifecycle.ReadStatus(gang.Workload{Job: job})
			isReported := status.Reason == gang.ReasonQueueUnavailable && strings.Contains(status.Message, test.want)
			if n := w.countResumed(t); !isReported || n > 0 {
				t.Errorf("%s: %s; %d Jobs run", status.Reason, status.Message, n)
			}
		})
	}
}

// TestRunningGangIsNotQueued checks that a gang that runs stays as it is after Rollcall was permitted to queue gangs,
// even if its user adds the annotation.
func TestRunningGangIsNotQueued(t *testing.T) {
	var running []client.Object
	for _, role := range []string{"ps", "worker"} {
		job := &batchv1.Job{ObjectMeta: newObjectMeta("train-"+role, "tensorflow", role, "ps=2,worker=2")}
		job.Labels[gang.LabelQueueName] = "team"
		job.Spec = batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: *podTemplate.DeepCopy(),
		}
		job = admitObject(t, job).(*batchv1.Job)
		job.Annotations[gang.AnnotationQueue] = "team"
		job.Status = batchv1.JobStatus{StartTime: ptr.To(metav1.NewTime(testStartTime)), Active: 2, Ready: ptr.To[int32](2)}
		running = append(running, job)
	}
	w := newQueueCluster(t, running...)
	w.reconcileOften(t)
	if n := w.countResumed(t); n != 2 || w.getQueueWorkload(t) != nil {
		t.Errorf("%d Jobs run, Workload %v", n, w.getQueueWorkload(t))
	}
}

// TestDeletedMemberKeepsQuota checks that the other members run on when a member is deleted, for example by its time to
// live after it completed.
func TestDeletedMemberKeepsQuota(t *testing.T) {
	members := newQueuedMembers(t)
	w := newQueueCluster(t, members...)
	w.reconcileOften(t)
	w.setConditions(t, "QuotaReserved", "Admitted")
	w.reconcileOften(t)
	uid := w.getQueueWorkload(t).GetUID()
	if err := w.Delete(t.Context(), members[0]); err != nil {
		t.Fatal(err)
	}
	w.reconcileOften(t)
	workload := w.getQueueWorkload(t)
	if n := w.countResumed(t); n != 1 || workload == nil || workload.GetUID() != uid {
		t.Errorf("%d of 1 Jobs run; the Workload exists: %t", n, workload != nil)
	}
}

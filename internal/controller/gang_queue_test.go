package controller

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	w := newTestCluster(t, append(objects, newFlavor("a100"), newFlavor("h100"))...)
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
		job.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		job.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "user", Operator: corev1.TolerationOpExists}}
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

// admit admits the Workload of the gang with a flavor. Fields are added to the assignments.
func (w *testCluster) admit(t *testing.T, flavor string, fields ...map[string]any) {
	t.Helper()
	w.setConditions(t, "QuotaReserved", "Admitted")
	workload := w.getQueueWorkload(t)
	var assignments []any
	for _, role := range []string{"ps", "worker"} {
		assignment := map[string]any{"name": role, "flavors": map[string]any{"cpu": flavor}}
		for _, f := range fields {
			maps.Copy(assignment, f)
		}
		assignments = append(assignments, assignment)
	}
	workload.Object["status"].(map[string]any)["admission"] = map[string]any{"podSetAssignments": assignments}
	w.update(t, workload)
}

func (w *testCluster) update(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// evict evicts the gang from its queue, and waits until the gang has given its quota back.
func (w *testCluster) evict(t *testing.T) {
	t.Helper()
	w.setConditions(t, "QuotaReserved", "Admitted", "Evicted")
	w.reconcileOften(t)
	w.observeSuspension(t)
	w.reconcileOften(t)
	if s, err := kueue.Read(w.getQueueWorkload(t)); err != nil || s.MustRelease || s.Admitted {
		t.Fatalf("the status of the evicted Workload is %+v, %v", s, err)
	}
}

// getMember returns a Job of the gang.
func (w *testCluster) getMember(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, job); err != nil {
		t.Fatal(err)
	}
	return job
}

// newFlavor returns a ResourceFlavor with a label and a taint.
func newFlavor(name string) client.Object {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"nodeLabels":  map[string]any{"gpu": name, name: ""},
		"tolerations": []any{map[string]any{"key": name, "operator": "Exists"}},
	}}}
	out.SetGroupVersionKind(kueue.Version.WithKind("ResourceFlavor"))
	out.SetName(name)
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
	w.update(t, workload)
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
	w.admit(t, "a100")
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

// TestAnotherFlavor checks that a gang that is admitted again has only the nodes of its new flavor, and that Kueue does
// not see the former ones.
func TestAnotherFlavor(t *testing.T) {
	for name, isRecreated := range map[string]bool{"evicts the gang": false, "deletes the Workload": true} {
		t.Run("somebody "+name, func(t *testing.T) {
			w := newQueueCluster(t, newQueuedMembers(t)...)
			w.reconcileOften(t)
			for _, flavor := range []string{"a100", "h100"} {
				w.admit(t, flavor)
				w.reconcileOften(t)
				spec := w.getMember(t, "train-ps").Spec.Template.Spec
				want := map[string]string{"disk": "ssd", "gpu": flavor, flavor: ""}
				if diff := cmp.Diff(want, spec.NodeSelector); diff != "" || w.countResumed(t) != 2 {
					t.Fatalf("%d Jobs run on %s, node selector -want, +got:\n%s", w.countResumed(t), flavor, diff)
				}
				for key, want := range map[string]bool{"user": true, "a100": flavor == "a100", "h100": flavor == "h100"} {
					isKey := func(t corev1.Toleration) bool { return t.Key == key }
					if slices.ContainsFunc(spec.Tolerations, isKey) != want {
						t.Errorf("on %s, the gang has the tolerations %v", flavor, spec.Tolerations)
					}
				}
				w.evict(t)
				if isRecreated {
					if err := w.Delete(t.Context(), w.getQueueWorkload(t)); err != nil {
						t.Fatal(err)
					}
					w.reconcileOften(t)
				}
				sets, _, err := unstructured.NestedSlice(w.getQueueWorkload(t).Object, "spec", "podSets")
				if err != nil || len(sets) != 2 {
					t.Fatalf("pod sets %v, %v", sets, err)
				}
				selector, _, err := unstructured.NestedStringMap(sets[0].(map[string]any), "template", "spec", "nodeSelector")
				if diff := cmp.Diff(map[string]string{"disk": "ssd"}, selector); diff != "" || err != nil {
					t.Errorf("error %v, the node selector for Kueue: -want, +got:\n%s", err, diff)
				}
			}
		})
	}
}

// TestUnsupportedAdmission checks that a gang gives an admission back that Rollcall does not support, once, and starts
// when its user activates it with another one.
func TestUnsupportedAdmission(t *testing.T) {
	for name, fields := range map[string]map[string]any{
		"has a topology":            {"topologyAssignment": map[string]any{"levels": []any{"rack"}}},
		"has another role":          {"name": "chief"},
		"admits some of the pods":   {"count": int64(1)},
		"needs nodes of the others": {"flavors": map[string]any{"cpu": "hdd"}},
	} {
		t.Run("an admission that "+name, func(t *testing.T) {
			hdd := newFlavor("hdd").(*unstructured.Unstructured)
			hdd.Object["spec"].(map[string]any)["nodeLabels"] = map[string]any{"disk": "hdd"}
			w := newQueueCluster(t, append(newQueuedMembers(t), hdd)...)
			w.reconcileOften(t)
			w.admit(t, "a100", fields)
			w.reconcileOften(t)
			requireUnwritten := func() {
				t.Helper()
				before := w.getQueueWorkload(t).GetResourceVersion()
				w.reconcileOften(t)
				if after := w.getQueueWorkload(t).GetResourceVersion(); after != before || w.countResumed(t) > 0 {
					t.Errorf("Rollcall writes the Workload again: %t; %d Jobs run", after != before, w.countResumed(t))
				}
			}
			requireUnwritten()
			workload := w.getQueueWorkload(t)
			conditions, _, _ := unstructured.NestedSlice(workload.Object, "status", "conditions")
			target := conditions[len(conditions)-1].(map[string]any)
			if target["type"] != "DeactivationTarget" {
				t.Fatalf("the Workload has the conditions %v", conditions)
			}
			target["type"], target["reason"] = "Evicted", "DeactivatedDueToUnsupported" // as Kueue writes them
			workload.Object["status"].(map[string]any)["conditions"] = conditions
			workload.Object["spec"].(map[string]any)["active"] = false
			w.update(t, workload)
			w.reconcileOften(t)
			requireUnwritten()
			status := lifecycle.ReadStatus(gang.Workload{Job: w.getMember(t, "train-ps")})
			isReleased := w.getQueueWorkload(t).Object["status"].(map[string]any)["admission"] == nil
			if !isReleased || status.Reason != gang.ReasonQueueUnavailable ||
				!strings.Contains(status.Message, kueue.ErrUnsupported.Error()) {
				t.Errorf("quota released: %t; %s: %s", isReleased, status.Reason, status.Message)
			}
			workload = w.getQueueWorkload(t)
			workload.Object["spec"].(map[string]any)["active"] = true
			w.update(t, workload)
			w.admit(t, "a100")
			w.reconcileOften(t)
			if n := w.countResumed(t); n != 2 {
				t.Errorf("%d Jobs run after the Workload was activated", n)
			}
		})
	}
}

// TestForgedWorkload checks that a gang does not run on the quota of a Workload that somebody changed, and takes no
// nodes from it.
func TestForgedWorkload(t *testing.T) {
	for name, test := range map[string]struct {
		change map[string]any
		want   int
	}{
		"fewer pods":   {change: map[string]any{"count": int64(1)}},
		"another role": {change: map[string]any{"name": "chief"}},
		"other nodes": {want: 2, change: map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "trainer"}}, "nodeSelector": map[string]any{"node-role": "control-plane"},
		}}}},
	} {
		t.Run("a Workload with "+name, func(t *testing.T) {
			w := newQueueCluster(t, newQueuedMembers(t)...)
			w.reconcileOften(t)
			workload := w.getQueueWorkload(t)
			sets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
			maps.Copy(sets[0].(map[string]any), test.change)
			workload.Object["spec"].(map[string]any)["podSets"] = sets
			w.update(t, workload)
			w.admit(t, "a100")
			w.reconcileOften(t)
			selector := w.getMember(t, "train-worker").Spec.Template.Spec.NodeSelector
			if n := w.countResumed(t); n != test.want || selector["node-role"] != "" {
				t.Errorf("%d Jobs run on nodes with %v", n, selector)
			}
			sets, _, _ = unstructured.NestedSlice(w.getQueueWorkload(t).Object, "spec", "podSets")
			if set := sets[0].(map[string]any); set["name"] != "worker" || set["count"] != int64(2) {
				t.Errorf("the pod set is %v", set)
			}
		})
	}
}

// TestReplacedWorkload checks that a gang does not run on without quota if somebody else takes the name of its
// Workload.
func TestReplacedWorkload(t *testing.T) {
	w := newQueueCluster(t, newQueuedMembers(t)...)
	w.reconcileOften(t)
	w.admit(t, "a100")
	w.reconcileOften(t)
	if err := w.Delete(t.Context(), w.getQueueWorkload(t)); err != nil {
		t.Fatal(err)
	}
	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(workloadKind)
	foreign.SetNamespace("team")
	foreign.SetName("train")
	if err := w.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.reconcileOften(t)
	w.observeSuspension(t)
	w.reconcileOften(t)
	status := lifecycle.ReadStatus(gang.Workload{Job: w.getMember(t, "train-ps")})
	if n := w.countResumed(t); n > 0 || status.Reason != gang.ReasonQueueUnavailable {
		t.Errorf("%d Jobs run without quota; %s: %s", n, status.Reason, status.Message)
	}
	if err := w.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.reconcileOften(t)
	w.admit(t, "a100")
	w.reconcileOften(t)
	if n := w.countResumed(t); n != 2 {
		t.Errorf("%d Jobs run after the other Workload was deleted", n)
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
			status := lifecycle.ReadStatus(gang.Workload{Job: w.getMember(t, "train-ps")})
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
	w.admit(t, "a100")
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

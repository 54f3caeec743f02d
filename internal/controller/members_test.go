package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestSameNameAsMultiWorkloadGang checks that a gang of one workload with the name of a
// multi-workload gang is not a member of that gang, and that its completion does not complete
// that gang.
func TestSameNameAsMultiWorkloadGang(t *testing.T) {
	newMember := func(name, role, roles string) *batchv1.Job {
		return admitObject(t, &batchv1.Job{
			ObjectMeta: newObjectMeta(name, "pytorch", role, roles),
			Spec:       singlePodJobSpec(),
		}).(*batchv1.Job)
	}
	before := newMember("train", "worker", "")
	before.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	master, worker := newMember(
		"train-master",
		"master",
		"master=1,worker=1",
	), newMember("train-worker", "worker", "master=1,worker=1")
	pods := []*corev1.Pod{newJobPod(before, 0), newJobPod(master, 0)}
	pods[1].Labels[gang.LabelGang] = "train"
	w := newTestCluster(t, before, master, worker)
	for _, req := range []Request{trainRequest, trainJobRequest, trainRequest} {
		w.reconcileOnce(t, req)
	}
	for _, j := range []*batchv1.Job{before, master, worker} {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(j), j); err != nil {
			t.Fatal(err)
		}
		want := lifecycle.Pending
		if j == before {
			want = lifecycle.Succeeded
		}
		s := lifecycle.ReadStatus(gang.Workload{Job: j})
		isExpectedPhase := s.Phase == want || s.Phase == "" && want == lifecycle.Pending
		if !isExpectedPhase || s.Reason == gang.ReasonMemberConflict || *j.Spec.Completions != 1 {
			t.Errorf("%s: phase %s, reason %s, %d completions", j.Name, s.Phase, s.Reason, *j.Spec.Completions)
		}
	}
	for i, want := range []Request{trainJobRequest, trainRequest} {
		if got := w.requestsForPod(t.Context(), pods[i]); len(got) != 1 || got[0] != want {
			t.Errorf("requests for pod %s: %v, want %v", pods[i].Name, got, want)
		}
	}
}

package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestCalledAlike: a gang of one workload that bears the name of a gang of several, as the Job from which that was made and
// which is done, is no member of it, and its end is none of theirs.
func TestCalledAlike(t *testing.T) {
	part := func(name, role, roles string) *batchv1.Job {
		return admit(t, &batchv1.Job{ObjectMeta: meta(name, "pytorch", role, roles), Spec: one()}).(*batchv1.Job)
	}
	before := part("train", "worker", "")
	before.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	master, worker := part("train-master", "master", "master=1,worker=1"), part("train-worker", "worker", "master=1,worker=1")
	pods := []*corev1.Pod{podOf(before, 0), podOf(master, 0)}
	pods[1].Labels[gang.LabelGang] = "train"
	w := newWorld(t, before, master, worker)
	for _, req := range []Request{train, trainJob, train} {
		w.look(t, req)
	}
	for _, j := range []*batchv1.Job{before, master, worker} {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(j), j); err != nil {
			t.Fatal(err)
		}
		want := gang.Pending
		if j == before {
			want = gang.Succeeded
		}
		if s := gang.StatusOf(gang.Workload{Job: j}); s.Phase != want && (s.Phase != "" || want != gang.Pending) || s.Reason == gang.ReasonMembersDisagree || *j.Spec.Completions != 1 {
			t.Errorf("%s is %s, %s, with %d completions", j.Name, s.Phase, s.Reason, *j.Spec.Completions)
		}
	}
	for i, want := range []Request{trainJob, train} {
		if got := w.requestsOfPod(t.Context(), pods[i]); len(got) != 1 || got[0] != want {
			t.Errorf("the pod %s wakes %v, want %v", pods[i].Name, got, want)
		}
	}
}

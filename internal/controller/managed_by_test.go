package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestExternallyManagedJob checks that Rollcall writes nothing for a Job of another controller, such as
// MultiKueue: neither a status, which the other controller writes, nor a Service or a Secret, which the
// pods in another cluster could not use.
func TestExternallyManagedJob(t *testing.T) {
	for manager, wantsObjects := range map[string]bool{
		batchv1.JobControllerName: true, "kueue.x-k8s.io/multikueue": false,
	} {
		t.Run(manager, func(t *testing.T) {
			job := newLauncherJob(t)
			job.Spec.ManagedBy = &manager
			job.Status = batchv1.JobStatus{
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}},
			}
			pending := newWorkerStatefulSet(t)
			w := newTestCluster(t, job)
			w.reconcileOnce(t, trainRequest)
			got := &batchv1.Job{}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), got); err != nil {
				t.Fatal(err)
			}
			isUnchanged := cmp.Equal(job.Annotations, got.Annotations) && cmp.Equal(job.Status, got.Status)
			if isUnchanged == wantsObjects {
				t.Errorf("annotations %v, status %+v", got.Annotations, got.Status)
			}
			// A member that Rollcall manages does not make Rollcall manage the Job.
			if err := w.Create(t.Context(), pending); err != nil {
				t.Fatal(err)
			}
			for _, req := range w.requestsForWorkload(t.Context(), job) {
				w.reconcileOnce(t, req)
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), got); err != nil {
				t.Fatal(err)
			}
			if !wantsObjects && !cmp.Equal(job.Status, got.Status) {
				t.Errorf("with another member, the status is %+v", got.Status)
			}
		})
	}
	single := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec(),
	}).(*batchv1.Job)
	manager := "kueue.x-k8s.io/multikueue"
	single.Spec.ManagedBy = &manager
	w := newTestCluster(t, single)
	w.reconcileOnce(t, trainJobRequest)
	var services corev1.ServiceList
	if err := w.List(t.Context(), &services); err != nil || len(services.Items) > 0 {
		t.Errorf("%d Services exist, %v", len(services.Items), err)
	}
}

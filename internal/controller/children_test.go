package controller

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// TestSharedServicePort checks that two gangs of one name do not overwrite the port of their Service
// alternately, and that a gang that owns the Service alone can change the port.
func TestSharedServicePort(t *testing.T) {
	newGang := func(name, port string) *batchv1.Job {
		job := &batchv1.Job{ObjectMeta: newObjectMeta(name, "pytorch", "worker", ""), Spec: singlePodJobSpec()}
		job.Labels[gang.LabelGang] = "shared"
		job.Annotations = map[string]string{gang.AnnotationPort: port}
		return admitObject(t, job).(*batchv1.Job)
	}
	w := newTestCluster(t, newGang("a", "11111"), newGang("b", "22222"))
	service := &corev1.Service{}
	reconcileJob := func(name string) {
		t.Helper()
		w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: name})
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "shared"}, service); err != nil {
			t.Fatal(err)
		}
	}
	reconcileJob("a")
	job, _ := w.getJob(t, "a")
	job.Annotations[gang.AnnotationPort] = "12345"
	if err := w.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	reconcileJob("a")
	if service.Spec.Ports[0].Port != 12345 {
		t.Errorf("the only gang has the port %d, want 12345", service.Spec.Ports[0].Port)
	}
	reconcileJob("b")
	if len(service.OwnerReferences) != 2 {
		t.Errorf("%d owners, want both gangs", len(service.OwnerReferences))
	}
	version := service.ResourceVersion
	for _, name := range []string{"a", "b", "a", "b"} {
		reconcileJob(name)
	}
	if service.Spec.Ports[0].Port != 12345 || service.ResourceVersion != version {
		t.Errorf("port %d, resource version %s after %s", service.Spec.Ports[0].Port, service.ResourceVersion, version)
	}
	if n := w.countEvents(gang.ReasonServiceShared); n != 1 {
		t.Errorf("%d Events ServiceShared, want one for the gang whose port has no effect", n)
	}
}

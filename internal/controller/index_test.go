package controller

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

func TestRequestsForWorkload(t *testing.T) {
	run := func(name string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: newObjectMeta(name, "pytorch", "worker", ""), Spec: singlePodJobSpec()}
		j.Labels[gang.LabelGang] = "nightly"
		return admitObject(t, j).(*batchv1.Job)
	}
	forgotten := admitObject(t, &appsv1.StatefulSet{ObjectMeta: newObjectMeta("train-worker", "pytorch", "worker", ""),
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *podTemplate.DeepCopy()}})
	first, second := run("nightly-1"), run("nightly-2")
	singleWorkload := func(name string, kind gang.Kind) Request {
		return Request{
			Namespace: "team",
			Kind:      kind,
			Name:      name,
		}
	}
	for name, c := range map[string]struct {
		existing []client.Object
		changed  client.Object
		want     []Request
	}{
		"member of a multi-workload gang": {
			existing: []client.Object{newLauncherJob(t), newWorkerStatefulSet(t)},
			changed:  newWorkerStatefulSet(t),
			want:     []Request{trainRequest},
		},
		"deleted member": {
			existing: []client.Object{newWorkerStatefulSet(t)},
			changed:  newLauncherJob(t),
			want:     []Request{trainRequest},
		},
		"run of a CronJob does not affect the other runs": {
			existing: []client.Object{first, second},
			changed:  first,
			want:     []Request{singleWorkload("nightly-1", gang.Job)},
		},
		"workload without roles affects the gang that misses it": {
			existing: []client.Object{newLauncherJob(t), forgotten},
			changed:  forgotten,
			want:     []Request{singleWorkload("train-worker", gang.StatefulSet), trainRequest},
		},
		"workload with the name of a member that no gang misses": {
			existing: []client.Object{forgotten},
			changed:  forgotten,
			want:     []Request{singleWorkload("train-worker", gang.StatefulSet)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, c.existing...)
			if diff := cmp.Diff(c.want, w.requestsForWorkload(t.Context(), c.changed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team",
			Name:      "nightly",
			Labels:    map[string]string{gang.LabelGang: "nightly"},
		},
	}
	got := newTestCluster(t, first, second).requestsForService(t.Context(), service)
	if !slices.Contains(
		got,
		singleWorkload("nightly-1", gang.Job),
	) || !slices.Contains(got, singleWorkload("nightly-2", gang.Job)) || len(got) != 2 {
		t.Errorf("requests for a deleted Service: %v", got)
	}
}

package controller

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
)

// TestUserServiceWithGangLabel checks that Rollcall does not change a user's Service that has the label
// of the gang, for example because a tool adds the label to all objects of an application.
func TestUserServiceWithGangLabel(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", Labels: map[string]string{gang.LabelGang: "train"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{gang.LabelGang: "train"},
			Ports: []corev1.ServicePort{{Port: 9999}},
		},
	}
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t), service.DeepCopy())
	w.reconcileOnce(t, trainRequest)
	got := &corev1.Service{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(service), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(service.Spec, got.Spec); diff != "" || len(got.OwnerReferences) > 0 {
		t.Errorf("owners %v, spec (-want +got):\n%s", got.OwnerReferences, diff)
	}
}

func newTorchJob(t *testing.T) *batchv1.Job {
	t.Helper()
	return admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: *podTemplate.DeepCopy(),
		},
	}).(*batchv1.Job)
}

var torchRequest = Request{Namespace: "team", Kind: gang.Job, Name: "train"}

// TestServiceSelector checks that a pass never removes ranks from an existing Service.
func TestServiceSelector(t *testing.T) {
	all := map[string]string{gang.LabelGang: "train"}
	rank0 := map[string]string{gang.LabelGang: "train", batchv1.JobCompletionIndexAnnotation: "0"}
	for name, c := range map[string]struct {
		have       map[string]string
		annotation string
		want       map[string]string
	}{
		"new Service publishes rank 0":        {want: rank0},
		"rank 0 stays":                        {have: rank0, want: rank0},
		"all ranks of an older release stay":  {have: all, want: all},
		"the user adds the other ranks":       {have: rank0, annotation: "all", want: all},
		"the user cannot remove ranks":        {have: all, annotation: "rank0", want: all},
		"a changed selector becomes complete": {have: map[string]string{"app": "other"}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			job := newTorchJob(t)
			if c.annotation != "" {
				job.Annotations[gang.AnnotationPublishedRanks] = c.annotation
			}
			w := newTestCluster(t, job)
			if c.have != nil {
				w.reconcileOnce(t, torchRequest)
				service := w.getService(t, "train")
				service.Spec.Selector = c.have
				service.Annotations = map[string]string{"owner": "another controller"}
				if err := w.Update(t.Context(), service); err != nil {
					t.Fatal(err)
				}
			}
			w.reconcileOnce(t, torchRequest)
			service := w.getService(t, "train")
			if diff := cmp.Diff(c.want, service.Spec.Selector); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if c.have != nil && service.Annotations["owner"] != "another controller" {
				t.Errorf("a pass changed fields that the cache does not contain: %v", service.Annotations)
			}
		})
	}
}

func (w *testCluster) getService(t *testing.T, name string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, service); err != nil {
		t.Fatal(err)
	}
	return service
}

// TestServiceRequests checks that a gang needs one request for its Service, even if the cache contains
// the new Service late, and that a deleted Service is created again.
func TestServiceRequests(t *testing.T) {
	w := newTestCluster(t, newTorchJob(t))
	creates, reads, isCached := 0, 0, false
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			creates++
			return c.Create(ctx, o, opts...)
		},
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if _, isService := o.(*corev1.Service); isService && !isCached {
				key.Name += "-not-cached"
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	w.APIReader = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 3 {
		w.reconcileOnce(t, torchRequest)
	}
	isCached = true
	w.reconcileOnce(t, torchRequest)
	if creates != 1 || reads != 0 {
		t.Errorf("%d create requests and %d reads, want 1 and 0", creates, reads)
	}
	service := w.getService(t, "train")
	if err := w.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	w.requestsForService(t.Context(), service)
	w.reconcileOnce(t, torchRequest)
	if w.getService(t, "train").UID == "" || creates != 2 {
		t.Errorf("%d create requests after the deletion, want 2", creates)
	}
}

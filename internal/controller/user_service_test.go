package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

package manager

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollcall.training/internal/policy"
)

func TestReadNamespace(t *testing.T) {
	newClient := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	}
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{"tier": "research"}}}
	want := policy.Namespace{Name: "team", Labels: map[string]string{"tier": "research"}}
	for name, readers := range map[string]struct{ cache, live client.Client }{
		"the cache contains the namespace":                 {newClient(team), newClient()},
		"the cache does not contain the new namespace yet": {newClient(), newClient(team)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readNamespace(t.Context(), readers.cache, readers.live, "team")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error("namespace (-want +got):\n" + diff)
			}
		})
	}
	if _, err := readNamespace(t.Context(), newClient(), newClient(), "team"); !apierrors.IsNotFound(errors.Unwrap(err)) {
		t.Errorf("for a missing namespace, the error is %v", err)
	}
}

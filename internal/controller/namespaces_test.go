package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
)

// TestExcludedNamespace checks that the reconciler leaves out the namespaces that the webhooks do not
// cover: it writes no status and creates no object there.
func TestExcludedNamespace(t *testing.T) {
	selector, err := labels.Parse("kubernetes.io/metadata.name notin (kube-system), team=a")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		namespace   string
		labels      map[string]string
		wantManaged bool
	}{
		"namespace of the team":    {namespace: "team", labels: map[string]string{"team": "a"}, wantManaged: true},
		"namespace of others":      {namespace: "team", labels: map[string]string{"team": "b"}},
		"namespace of the cluster": {namespace: "kube-system", labels: map[string]string{"team": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := &batchv1.Job{ObjectMeta: newObjectMeta("plain", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
			forged := plain.DeepCopy()
			forged.Name, forged.UID = "forged", "forged"
			forged.Annotations = map[string]string{gang.AnnotationInjected: "{}"}
			forged.Spec.Template.Spec.Subdomain = "some-service"
			plain.Namespace, forged.Namespace = c.namespace, c.namespace
			c.labels[corev1.LabelMetadataName] = c.namespace
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace, Labels: c.labels}}
			w := newTestCluster(t, namespace, plain, forged)
			w.Namespaces = selector
			for _, job := range []*batchv1.Job{plain, forged} {
				w.reconcileOnce(t, Request{Namespace: c.namespace, Kind: gang.Job, Name: job.Name})
				got := &batchv1.Job{}
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), got); err != nil {
					t.Fatal(err)
				}
				if isUnchanged := cmp.Equal(job.Annotations, got.Annotations); isUnchanged == c.wantManaged {
					t.Errorf("%s has the annotations %v", job.Name, got.Annotations)
				}
			}
			var services corev1.ServiceList
			if err := w.List(t.Context(), &services); err != nil || (len(services.Items) > 0) != c.wantManaged {
				t.Errorf("%d Services exist, %v", len(services.Items), err)
			}
			if got := w.requestsForNamespace(t.Context(), namespace); (len(got) == 2) != c.wantManaged {
				t.Errorf("requests of the namespace: %v", got)
			}
		})
	}
	t.Run("namespace that the cache does not contain", func(t *testing.T) {
		w := newTestCluster(t)
		w.Namespaces = selector
		if managed, err := w.isManagedNamespace(t.Context(), "team"); managed || err != nil {
			t.Errorf("managed: %v, %v", managed, err)
		}
	})
	t.Run("selector of names reads no namespaces", func(t *testing.T) {
		w := newTestCluster(t)
		w.Namespaces, err = labels.Parse("kubernetes.io/metadata.name notin (kube-system)")
		if err != nil {
			t.Fatal(err)
		}
		w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("the manager has no permission")
			},
		})
		for namespace, want := range map[string]bool{"team": true, "kube-system": false} {
			if got, err := w.isManagedNamespace(t.Context(), namespace); got != want || err != nil {
				t.Errorf("%s: %v, %v", namespace, got, err)
			}
		}
	})
}

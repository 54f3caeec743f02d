package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// manager is Rollcall's own program with a cluster without nodes. Its methods are the operations of
// the tests on that cluster.
type manager struct{ *installation.Manager }

// createNamespace creates a namespace for one test, with the given label keys from the start: admission policies see a
// later label with a delay. It waits until the namespace can have pods.
func (m *manager) createNamespace(t *testing.T, labelKeys ...string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: map[string]string{}}}
	for _, key := range labelKeys {
		namespace.Labels[key] = "true"
	}
	ns, err := m.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitForServiceAccount(t, m.Client, ns.Name)
	return ns.Name
}

// runParallel runs the cases in parallel, each in its own namespace, and returns when all have
// finished.
func (m *manager) runParallel(t *testing.T, cases map[string]func(*testing.T, *manager, string)) {
	t.Helper()
	t.Run("parallel", func(t *testing.T) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, m, m.createNamespace(t))
			})
		}
	})
}

// waitForServiceAccount waits for the default ServiceAccount of a new namespace. Until it exists,
// the API server rejects every pod.
func waitForServiceAccount(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	wait.For(t, "the default ServiceAccount", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/installation"
)

// patience bounds each wait.
const patience = installation.Patience

// manager is Rollcall's own program beside a cluster without nodes, and what the tests of gangs ask of that cluster.
type manager struct{ *installation.Manager }

// eventually waits until check gives nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	installation.Eventually(t, what, check)
}

// namespace makes one for a test of its own.
func (m *manager) namespace(t *testing.T) string {
	t.Helper()
	ns, err := m.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitAccount(t, m.Client, ns.Name)
	return ns.Name
}

// together runs cases side by side, each in a namespace of its own, and returns when all have ended.
func (m *manager) together(t *testing.T, cases map[string]func(*testing.T, *manager, string)) {
	t.Helper()
	t.Run("together", func(t *testing.T) {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, m, m.namespace(t))
			})
		}
	})
}

// awaitAccount waits for the default ServiceAccount of a new namespace: until then, every pod in it is refused.
func awaitAccount(t *testing.T, client kubernetes.Interface, ns string) {
	t.Helper()
	eventually(t, "the default ServiceAccount", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

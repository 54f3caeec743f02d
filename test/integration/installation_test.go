package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	return ns.Name
}

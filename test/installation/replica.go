package installation

import (
	"os"
	"path/filepath"
	"testing"
)

// Replica is another manager of the same installation, with ports of its own, which has yet to be started. The API server
// calls the webhook of the first one alone.
func (m *Manager) Replica(t testing.TB) *Manager {
	t.Helper()
	dir := t.TempDir()
	r := &Manager{
		Cluster: m.Cluster, Client: m.Client, chart: m.chart, flags: m.flags,
		program: m.program, kubeconfig: filepath.Join(dir, "kubeconfig"),
		webhook: freePort(t), probes: freePort(t), metrics: freePort(t),
	}
	var err error
	if r.log, err = os.Create(filepath.Join(m.Cluster.LogDir(), "rollcall-replica.log")); err != nil {
		t.Fatalf("making the manager's log: %v", err)
	}
	t.Cleanup(func() {
		r.Stop(t)
		if t.Failed() {
			text, _ := os.ReadFile(r.log.Name())
			t.Logf("the replica's log:\n%s", tail(text, shownLines))
		}
		if err := r.log.Close(); err != nil {
			t.Errorf("closing the manager's log: %v", err)
		}
	})
	r.writeKubeconfig(t)
	return r
}

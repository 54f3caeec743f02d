package installation

import "testing"

// NewReplica returns a second manager of the same installation, with its own ports and log. The
// caller must start it. The API server calls the webhooks of the first manager only.
func (m *Manager) NewReplica(t testing.TB) *Manager {
	t.Helper()
	r := &Manager{
		Cluster:      m.Cluster,
		Client:       m.Client,
		chartArgs:    m.chartArgs,
		managerFlags: m.managerFlags,
		binaryPath:   m.binaryPath,
	}
	r.prepareProcess(t, "rollcall-replica.log")
	r.writeKubeconfig(t)
	return r
}

package installation

import (
	"errors"
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// Through has the manager reach the API server at another address from its next Start on, such as that of a proxy, and
// trust the certificate there, which is in PEM.
func (m *Manager) Through(t testing.TB, server string, certificate []byte) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(m.kubeconfig)
	if err != nil {
		t.Fatalf("reading the manager's kubeconfig: %v", err)
	}
	config.Clusters[Release].Server = server
	config.Clusters[Release].CertificateAuthorityData = certificate
	if err := clientcmd.WriteToFile(*config, m.kubeconfig); err != nil {
		t.Fatalf("writing the manager's kubeconfig: %v", err)
	}
}

// Kill ends the manager as a crash or a lost node does: at once, and without a word. It does nothing when none runs.
// Unlike Stop, it may be called from any goroutine.
func (m *Manager) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-m.ended
	m.process = nil
	return nil
}

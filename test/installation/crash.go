package installation

import (
	"errors"
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// UseAPIServer makes the manager use another address of the API server after its next Start, for
// example the address of a proxy. certificate is the CA of that address in PEM.
func (m *Manager) UseAPIServer(t testing.TB, server string, certificate []byte) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(m.kubeconfigPath)
	if err != nil {
		t.Fatalf("reading the manager's kubeconfig: %v", err)
	}
	config.Clusters[Release].Server = server
	config.Clusters[Release].CertificateAuthorityData = certificate
	if err := clientcmd.WriteToFile(*config, m.kubeconfigPath); err != nil {
		t.Fatalf("writing the manager's kubeconfig: %v", err)
	}
}

// Kill terminates the manager with SIGKILL, like a crash or the loss of its node. It does nothing
// if the manager is not running. Unlike Stop, Kill is safe to call from any goroutine.
func (m *Manager) Kill() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return nil
	}
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-m.exited
	m.process = nil
	return nil
}

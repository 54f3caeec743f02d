package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
)

// detectContainerRestartRules reports whether the API server supports restart rules of containers. It
// is called once at startup. An upgrade of the cluster also replaces nodes, which restarts the
// manager.
func detectContainerRestartRules(config *rest.Config) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, fmt.Errorf("creating a discovery client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("requesting the version of the API server: %w", err)
	}
	return gang.SupportsContainerRestartRules(info.GitVersion)
}

// computeVersion returns an identifier of this executable, of the image of the agent, and of the detected
// features of the API server. Two managers with the same identifier inject a workload in the same way. The version of a
// release is not sufficient, because images are also built from commits between releases.
func computeVersion(containerRestartRules bool, agentImage string) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the executable: %w", err)
	}
	executable, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the executable: %w", err)
	}
	defer func() { _ = executable.Close() }() // opened only for reading
	hash := sha256.New()
	if _, err := io.Copy(hash, executable); err != nil {
		return "", fmt.Errorf("reading the executable: %w", err)
	}
	fmt.Fprint(hash, containerRestartRules, agentImage)
	return hex.EncodeToString(hash.Sum(nil)[:4]), nil
}

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// assetsEnv is the environment variable with a directory of programs of the control plane. Tests with envtest have it.
const assetsEnv = "KUBEBUILDER_ASSETS"

// controlPlanePrograms are the programs that a cluster without real nodes runs. The directory of envtest contains the
// first three. docs/contributing/testing.md describes where the others come from.
var controlPlanePrograms = []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler"}

// checkAssets returns nil if a directory contains all programs of the control plane, and those of Kubernetes have the
// minor version of a version. Traces and expectations of tests are those of one minor version.
func checkAssets(ctx context.Context, dir, version string) error {
	var missing []string
	for _, name := range controlPlanePrograms {
		if !isFile(filepath.Join(dir, name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the directory does not contain %s", strings.Join(missing, ", "))
	}
	wanted := version[:strings.LastIndex(version, ".")+1] // v1.37.
	for _, name := range controlPlanePrograms[1:] {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, name), "--version")
		if name == "kubectl" {
			cmd = exec.CommandContext(ctx, filepath.Join(dir, name), "version", "--client")
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("running %s: %w", name, err)
		}
		if !strings.Contains(string(out), " "+wanted) {
			return fmt.Errorf("%s is not %sx: %s", name, wanted, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// findAssets returns the directory of the programs of the control plane, or an empty text if the cluster has to build
// them. It reports why it does not use a directory that the user names.
func (c *Cluster) findAssets(ctx context.Context) (string, error) {
	dir := os.Getenv(assetsEnv)
	if dir == "" || c.options.Nodes == Real || c.options.Release != Latest {
		return "", nil
	}
	version, err := kubernetesComponent.requiredVersion()
	if err != nil {
		return "", err
	}
	if err := checkAssets(ctx, dir, version); err != nil {
		c.progress.printLine("%s: not used, so Kubernetes is built: %v", assetsEnv, err)
		return "", nil
	}
	return dir, nil
}

// controlPlaneProgram returns the path of a program of the control plane.
func (b binaryPaths) controlPlaneProgram(name string) string {
	if b.assets != "" {
		return filepath.Join(b.assets, name)
	}
	return b.kubernetes
}

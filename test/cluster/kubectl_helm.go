package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl with the cluster and returns its standard output. The error contains its
// standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.runTool(ctx, c.binaries.controlPlaneProgram("kubectl"), "kubectl", "", args)
}

// KubectlWithInput is Kubectl with a standard input, for example for "apply", "-f", "-".
func (c *Cluster) KubectlWithInput(ctx context.Context, input string, args ...string) (string, error) {
	return c.runTool(ctx, c.binaries.controlPlaneProgram("kubectl"), "kubectl", input, args)
}

// Helm runs helm with the cluster and returns its standard output. The first call builds helm. Its
// configuration and caches are in the directory of the cluster.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	helm, err := helmComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return "", err
	}
	return c.runTool(ctx, helm, "helm", "", args)
}

// FindHelm returns the path of helm, for tests that need no cluster. The first call builds helm and writes
// its progress to w.
func FindHelm(ctx context.Context, w io.Writer) (string, error) {
	return helmComponent.ensureBinary(ctx, newProgress(w))
}

func (c *Cluster) runTool(ctx context.Context, path, name, input string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = name
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"HELM_CONFIG_HOME="+filepath.Join(c.dir, "helm"),
		"HELM_CACHE_HOME="+filepath.Join(c.dir, "helm"),
		"HELM_DATA_HOME="+filepath.Join(c.dir, "helm"),
		// kubectl's discovery cache must not outlive the cluster, because another cluster may use
		// the same address.
		"KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"))
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s",
			name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// replaceSymlink atomically replaces path with a symbolic link to target.
func replaceSymlink(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

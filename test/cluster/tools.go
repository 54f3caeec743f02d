package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl against the cluster and returns what it prints. The error holds what it says on standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, c.bin.kubernetes, "kubectl", "", args)
}

// KubectlInput is Kubectl with a standard input, such as for "apply", "-f", "-".
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	return c.tool(ctx, c.bin.kubernetes, "kubectl", input, args)
}

// Helm runs helm against the cluster and returns what it prints. The first time, it is built. Its configuration and
// caches are the cluster's own.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	helm, err := helmComponent.binary(ctx, c.progress)
	if err != nil {
		return "", err
	}
	return c.tool(ctx, helm, "helm", "", args)
}

func (c *Cluster) tool(ctx context.Context, path, name, input string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = name
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"HELM_CONFIG_HOME="+filepath.Join(c.dir, "helm"),
		"HELM_CACHE_HOME="+filepath.Join(c.dir, "helm"),
		"HELM_DATA_HOME="+filepath.Join(c.dir, "helm"),
		// kubectl's cache of the API's shape must not outlive the cluster: the next may use the same address.
		"KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"))
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// symlink makes path point to target, whatever it was before.
func symlink(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

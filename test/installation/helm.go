package installation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"rollcall.training/test/cluster"
)

// managerImage is the image of the manager in clusters with a real node.
const managerImage = "rollcall.training/manager:e2e"

// NewManagerImage returns the image of the manager, which a cluster with a real node must load before
// [InstallChart].
func NewManagerImage() (cluster.ImageSource, error) {
	source, err := findRepositoryRoot()
	if err != nil {
		return nil, err
	}
	return cluster.Binary{Ref: managerImage, Dir: source, Package: "./cmd/manager"}, nil
}

// InstallChart installs the chart in a cluster with a real node, as users do, and returns when the
// webhook is ready. args are further arguments of helm.
func InstallChart(ctx context.Context, c *cluster.Cluster, args ...string) error {
	source, err := findRepositoryRoot()
	if err != nil {
		return err
	}
	repository, tag, _ := strings.Cut(managerImage, ":")
	_, err = c.Helm(ctx, slices.Concat([]string{
		"install", Release, filepath.Join(source, "charts", "rollcall"),
		"--namespace", Namespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set-string", "image.repository=" + repository, "--set-string", "image.tag=" + tag,
	}, args)...)
	if err != nil {
		pods, _ := c.Kubectl(ctx, "--namespace", Namespace, "get", "pods,events")
		return fmt.Errorf("installing the chart: %w\n%s", err, pods)
	}
	return nil
}

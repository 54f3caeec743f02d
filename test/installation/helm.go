package installation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rollcall.training/test/cluster"
)

// ManagerImage is the image of the manager in clusters with a real node.
const ManagerImage = "rollcall.training/manager:e2e"

// NewManagerImage returns the image of the manager, which a cluster with a real node must load before
// [InstallChart].
func NewManagerImage() (cluster.ImageSource, error) {
	source, err := findRepositoryRoot()
	if err != nil {
		return nil, err
	}
	return NewManagerImageFromSource(source, ManagerImage), nil
}

// NewManagerImageFromSource returns the image of the manager of another build, which is in a source folder.
// The name must differ from that of other builds.
func NewManagerImageFromSource(source, name string) cluster.ImageSource {
	image := cluster.Binary{Ref: name, Dir: source, Package: "./cmd/manager"}
	if _, err := os.Stat(filepath.Join(source, "cmd", "agent")); err == nil { // an earlier build has no agent
		image.MorePackages = []string{"./cmd/agent"}
	}
	return image
}

// InstallChart installs the chart in a cluster with a real node, as users do, and returns when the
// webhook is ready. args are further arguments of helm.
func InstallChart(ctx context.Context, c *cluster.Cluster, args ...string) error {
	source, err := findRepositoryRoot()
	if err != nil {
		return err
	}
	return RunHelm(ctx, c, source, ManagerImage, append([]string{"install", "--create-namespace"}, args...)...)
}

// UpgradeChart upgrades the release to the chart and the image of this build, with default values.
func UpgradeChart(ctx context.Context, c *cluster.Cluster, args ...string) error {
	source, err := findRepositoryRoot()
	if err != nil {
		return err
	}
	return RunHelm(ctx, c, source, ManagerImage, append([]string{"upgrade"}, args...)...)
}

// RunHelm runs "helm install" or "helm upgrade" with the chart of a source folder and an image, and returns
// when the webhook is ready. args are the command of helm and further arguments.
func RunHelm(ctx context.Context, c *cluster.Cluster, source, image string, args ...string) error {
	repository, tag, _ := strings.Cut(image, ":")
	_, err := c.Helm(ctx, slices.Concat(args[:1], []string{
		Release, filepath.Join(source, "charts", "rollcall"),
		"--namespace", Namespace, "--wait", "--timeout", "3m",
		"--set-string", "image.repository=" + repository, "--set-string", "image.tag=" + tag,
	}, args[1:])...)
	if err != nil {
		pods, _ := c.Kubectl(ctx, "--namespace", Namespace, "get", "pods,events")
		return fmt.Errorf("running helm %s for the chart: %w\n%s", args[0], err, pods)
	}
	return nil
}

package main

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

	"rollcall.training/test/cluster"
)

const (
	// clusterName is that of the demo's own cluster.
	clusterName = "demo"
	// managerImage is what the manager is called where the demo builds it.
	managerImage = "rollcall.training/manager:demo"

	// Variables by which the user says what to use of a cluster of their own.
	kubeconfigEnv = "KUBECONFIG"
	managerEnv    = "ROLLCALL_IMAGE"
	trainingEnv   = "TRAINING_IMAGE"
)

// place is a cluster to show things on.
type place struct {
	kubectl, helm func(ctx context.Context, args ...string) (string, error)
	// manager and training are the images; an empty manager means that Rollcall is
	// there already.
	manager, training string
	// build changes with the manager's program, so that an upgrade restarts it.
	build string
	// around and stop are what the user types to use the cluster and to stop it.
	around, stop []string
}

// ownPlace starts the demo's cluster, or finds it running, and brings its images.
func ownPlace(ctx context.Context, w io.Writer) (*place, error) {
	c, err := cluster.Attach(clusterName)
	if err != nil {
		c, err = cluster.Up(ctx, cluster.Options{Name: clusterName, Nodes: cluster.Real, Detached: true, Progress: w})
	}
	if err != nil {
		return nil, err
	}
	manager, err := cluster.Binary{Ref: managerImage, Dir: root, Package: "./cmd/manager"}.Build(ctx, w)
	if err != nil {
		return nil, err
	}
	p := &place{kubectl: c.Kubectl, helm: c.Helm, build: filepath.Base(manager.Path)}
	if p.manager, err = c.LoadImage(ctx, manager); err != nil {
		return nil, err
	}
	if p.training, err = c.LoadImage(ctx, cluster.Torch); err != nil {
		return nil, err
	}
	p.around = []string{
		"export KUBECONFIG=" + c.Kubeconfig() + " PATH=" + filepath.Join(c.Dir(), "bin") + ":$PATH",
	}
	p.stop = []string{"make demo-down"}
	return p, nil
}

// givenPlace uses the cluster of KUBECONFIG and the tools that its user has.
func givenPlace(ctx context.Context) (*place, error) {
	p := &place{manager: os.Getenv(managerEnv), training: os.Getenv(trainingEnv)}
	for name, tool := range map[string]*func(context.Context, ...string) (string, error){"kubectl": &p.kubectl, "helm": &p.helm} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("looking for %s, which is needed to use the cluster of %s: %w", name, kubeconfigEnv, err)
		}
		*tool = func(ctx context.Context, args ...string) (string, error) { return output(ctx, path, args) }
	}
	if p.training == "" {
		return nil, fmt.Errorf("%s is not set: name an image with Python and PyTorch that your nodes can pull", trainingEnv)
	}
	if p.manager == "" {
		if _, err := p.kubectl(ctx, "get", "mutatingwebhookconfiguration", release); err != nil {
			return nil, fmt.Errorf("%s is not set, and Rollcall is not installed: name an image of ./cmd/manager that your nodes can pull (docs/demo.md): %w", managerEnv, err)
		}
	}
	p.around = []string{"kubectl config current-context"}
	p.stop = []string{"kubectl delete -k examples/pytorch", "helm uninstall " + release + " --namespace " + releaseNamespace}
	return p, nil
}

func output(ctx context.Context, path string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w", filepath.Base(path), strings.Join(args, " "),
			errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.String(), nil
}

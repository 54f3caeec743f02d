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
	"rollcall.training/test/installation"
)

const (
	// clusterName is the name of the demo's own cluster.
	clusterName = "demo"
	// builtManagerImage is the image of the manager if the demo builds it.
	builtManagerImage = "rollcall.training/manager:demo"

	// Environment variables with which the user selects an existing cluster and its images.
	kubeconfigEnv    = "KUBECONFIG"
	managerImageEnv  = "ROLLCALL_IMAGE"
	trainingImageEnv = "TRAINING_IMAGE"
)

// demoCluster is the cluster of the demo.
type demoCluster struct {
	runKubectl, runHelm func(ctx context.Context, args ...string) (string, error)
	// managerImage and trainingImage are the images. An empty managerImage means that Rollcall is
	// already installed.
	managerImage, trainingImage string
	// managerBuildID changes with the program of the manager, so that an upgrade restarts the
	// manager.
	managerBuildID string
	// exploreCommands and stopCommands are the commands for the user to select the cluster and to
	// clean up.
	exploreCommands, stopCommands []string
}

// startDemoCluster starts the demo's cluster unless it is running, builds the images and loads
// them.
func startDemoCluster(ctx context.Context, w io.Writer) (*demoCluster, error) {
	c, err := cluster.Attach(clusterName)
	if err != nil {
		c, err = cluster.Up(ctx, cluster.Options{Name: clusterName, Nodes: cluster.Real, Detached: true, Progress: w})
	}
	if err != nil {
		return nil, err
	}
	manager, err := cluster.Binary{Ref: builtManagerImage, Dir: repositoryRoot, Package: "./cmd/manager"}.Build(ctx, w)
	if err != nil {
		return nil, err
	}
	p := &demoCluster{runKubectl: c.Kubectl, runHelm: c.Helm, managerBuildID: filepath.Base(manager.Path)}
	if p.managerImage, err = c.LoadImage(ctx, manager); err != nil {
		return nil, err
	}
	if p.trainingImage, err = c.LoadImage(ctx, cluster.Torch); err != nil {
		return nil, err
	}
	p.exploreCommands = []string{
		"export KUBECONFIG=" + c.Kubeconfig() + " PATH=" + filepath.Join(c.Dir(), "bin") + ":$PATH",
	}
	p.stopCommands = []string{"make demo-down"}
	return p, nil
}

// useExistingCluster uses the cluster of KUBECONFIG with the user's kubectl and helm.
func useExistingCluster(ctx context.Context) (*demoCluster, error) {
	p := &demoCluster{managerImage: os.Getenv(managerImageEnv), trainingImage: os.Getenv(trainingImageEnv)}
	for name, tool := range map[string]*func(context.Context, ...string) (string, error){
		"kubectl": &p.runKubectl,
		"helm":    &p.runHelm,
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("finding %s, which is required with %s: %w", name, kubeconfigEnv, err)
		}
		*tool = func(ctx context.Context, args ...string) (string, error) { return runCommand(ctx, path, args) }
	}
	if p.trainingImage == "" {
		return nil, fmt.Errorf("%s is not set: set it to an image with Python and PyTorch that your nodes can pull "+
			"(docs/reference/frameworks/pytorch.md)",
			trainingImageEnv)
	}
	if p.managerImage == "" {
		if _, err := p.runKubectl(ctx, "get", "mutatingwebhookconfiguration", installation.Release); err != nil {
			return nil, fmt.Errorf("%s is not set, and Rollcall is not installed: "+
				"set it to an image of ./cmd/manager that your nodes can pull (docs/tasks/install.md#build-the-image): %w",
				managerImageEnv, err)
		}
	}
	p.exploreCommands = []string{"kubectl config current-context"}
	p.stopCommands = []string{
		"kubectl delete -k examples/pytorch",
		"helm uninstall " + installation.Release + " --namespace " + installation.Namespace,
	}
	return p, nil
}

func runCommand(ctx context.Context, path string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w", filepath.Base(path), strings.Join(args, " "),
			errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.String(), nil
}

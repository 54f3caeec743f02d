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
	runKubectl, runHelm, runRollcall func(ctx context.Context, args ...string) (string, error)
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
	source := cluster.Binary{Ref: builtManagerImage, Dir: repositoryRoot, Package: "./cmd/manager"}
	options := cluster.Options{
		Name: clusterName, Nodes: cluster.Real, Detached: true, Progress: w,
		Images: []cluster.ImageSource{source, cluster.Torch},
	}
	c, err := cluster.Attach(clusterName)
	if err != nil {
		c, err = buildAndStart(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	manager, err := source.Build(ctx, w)
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
	if err := p.buildRollcall(ctx, w, filepath.Join(c.Dir(), "bin"), c.Kubeconfig()); err != nil {
		return nil, err
	}
	p.exploreCommands = []string{
		"export KUBECONFIG=" + c.Kubeconfig() + " PATH=" + filepath.Join(c.Dir(), "bin") + ":$PATH",
	}
	p.stopCommands = []string{"make demo-down"}
	return p, nil
}

// buildAndStart builds everything before it starts the cluster.
func buildAndStart(ctx context.Context, options cluster.Options) (*cluster.Cluster, error) {
	if err := cluster.CanRunReal(); err != nil {
		return nil, err
	}
	if err := cluster.Build(ctx, options, cluster.Helm); err != nil {
		return nil, err
	}
	options.Images = nil // they are loaded later, also into a running cluster
	return cluster.Up(ctx, options)
}

// buildRollcall builds the command rollcall in a directory. An empty kubeconfig means the user's.
func (p *demoCluster) buildRollcall(ctx context.Context, w io.Writer, dir, kubeconfig string) error {
	path := filepath.Join(dir, "rollcall")
	if err := cluster.BuildProgram(ctx, w, repositoryRoot, "./cmd/rollcall", path); err != nil {
		return err
	}
	p.runRollcall = func(ctx context.Context, args ...string) (string, error) {
		if kubeconfig != "" {
			args = append(args, "--kubeconfig="+kubeconfig)
		}
		return runCommand(ctx, path, args)
	}
	return nil
}

// useExistingCluster uses the cluster of KUBECONFIG with the user's kubectl and helm.
func useExistingCluster(ctx context.Context, w io.Writer) (*demoCluster, error) {
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
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding a directory for the command rollcall: %w", err)
	}
	dir = filepath.Join(dir, "rollcall", "bin")
	if err := p.buildRollcall(ctx, w, dir, ""); err != nil {
		return nil, err
	}
	p.exploreCommands = []string{"export PATH=" + dir + ":$PATH"}
	p.stopCommands = []string{
		"kubectl delete -k examples/pytorch",
		"kubectl delete job/" + trainJob + " configmap/" + trainJob + "-program",
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

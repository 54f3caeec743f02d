package cluster

import (
	"context"
	"path/filepath"
)

var certManagerComponent = component{
	name: "cert-manager", module: "github.com/cert-manager/cert-manager", mainPackage: ".",
}

// StartCertManager runs cert-manager's controllers and cainjector as a process of this machine. The first
// call builds them. It creates the CustomResourceDefinitions of cert-manager, without its webhooks, which
// only validate. cert-manager stops with the cluster.
func (c *Cluster) StartCertManager(ctx context.Context) error {
	path, err := certManagerComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	module, err := certManagerComponent.findModuleDir(ctx)
	if err != nil {
		return err
	}
	return c.progress.runStep("cert-manager", func() error {
		if _, err := c.Kubectl(ctx, "create", "--filename", filepath.Join(module, "deploy", "crds")); err != nil {
			return err
		}
		if err := c.WaitForDefinitions(ctx); err != nil {
			return err
		}
		return c.startProgram(program{
			Name: "cert-manager", Path: path, Args: []string{"--kubeconfig=" + c.Kubeconfig()},
		})
	})
}

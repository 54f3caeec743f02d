package cluster

import (
	"context"
	"net/http"
	"path/filepath"
)

var mpiOperatorComponent = component{
	name: "mpi-operator", module: "github.com/kubeflow/mpi-operator",
	mainPackage: "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
}

// mpiOperatorHealth is the address of the health check, which no flag of mpi-operator changes.
const mpiOperatorHealth = "http://127.0.0.1:8080/healthz"

// StartMPIOperator runs mpi-operator as a process of this machine, and returns when it is ready. The first
// call builds it. It creates the CustomResourceDefinition of mpi-operator, which has no webhooks. Port 8080
// of this machine must be free. mpi-operator stops with the cluster.
//
// The limit of requests is the one that JobSet has by default. With its own defaults of 5 requests and 10
// reconciliations per second, mpi-operator would mainly wait for these limits.
func (c *Cluster) StartMPIOperator(ctx context.Context) error {
	path, err := mpiOperatorComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	module, err := mpiOperatorComponent.findModuleDir(ctx)
	if err != nil {
		return err
	}
	return c.progress.runStep("mpi-operator", func() error {
		definition := filepath.Join(module, "manifests", "base", "kubeflow.org_mpijobs.yaml")
		if _, err := c.Kubectl(ctx, "create", "--filename", definition); err != nil {
			return err
		}
		if err := c.WaitForDefinitions(ctx); err != nil {
			return err
		}
		if err := c.startProgram(program{Name: "mpi-operator", Path: path, Args: []string{
			"--kubeConfig=" + c.Kubeconfig(),
			"--lock-namespace=kube-system",
			"--kube-api-qps=500", "--kube-api-burst=500",
			"--controller-queue-rate-limit=500", "--controller-queue-burst=500",
		}}); err != nil {
			return err
		}
		return c.waitUntilReady(ctx, "mpi-operator", startTimeout, func(ctx context.Context) error {
			return checkHealth(ctx, http.DefaultClient, mpiOperatorHealth)
		})
	})
}

package cluster

import (
	"context"
	"path/filepath"
)

// trainerOperator has the concurrency of the manifests of Trainer, and the limit of requests that JobSet
// has by default. With its own default of 50 requests per second, Trainer would often wait for that limit.
var trainerOperator = operator{
	component: component{
		name: "trainer", module: "github.com/kubeflow/trainer/v2",
		mainPackage: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
	},
	manifests: []string{"manifests/base/crds/trainer.kubeflow.org_*.yaml", "manifests/base/webhook/manifests.yaml"},
	config: `apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: %[1]d}
health: {healthProbeBindAddress: "127.0.0.1:%[3]d"}
metrics: {bindAddress: "0"}
certManagement: {enable: false}
clientConnection: {qps: 500, burst: 500}
controller:
  groupKindConcurrency:
    TrainJob.trainer.kubeflow.org: 5
    TrainingRuntime.trainer.kubeflow.org: 1
    ClusterTrainingRuntime.trainer.kubeflow.org: 1
`,
	// The default of controller-runtime, which the configuration of Trainer cannot change.
	certDir:     filepath.Join("k8s-webhook-server", "serving-certs"),
	editWebhook: func(map[string]any, string) bool { return true },
}

// StartTrainer runs Kubeflow Trainer as a process of this machine, as [Cluster.StartKueue] runs Kueue, and
// creates the ClusterTrainingRuntime torch-distributed of its manifests. Call StartJobSet before, because
// Trainer creates a JobSet for each TrainJob.
func (c *Cluster) StartTrainer(ctx context.Context) error {
	if err := c.startOperator(ctx, trainerOperator); err != nil {
		return err
	}
	module, err := trainerOperator.findModuleDir(ctx)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "create", "--filename",
		filepath.Join(module, "manifests", "base", "runtimes", "torch_distributed.yaml"))
	return err
}

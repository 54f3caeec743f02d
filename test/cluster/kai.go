package cluster

import (
	"context"
	"fmt"
)

// KAIQueue is the queue that [Cluster.StartKAI] creates, the default of KAI.
const KAIQueue = "default-queue"

const kaiModule = "github.com/NVIDIA/KAI-scheduler"

var (
	kaiOperator = operator{
		component: component{
			name: "kai-scheduler", dir: "kai", module: kaiModule, mainPackage: kaiModule + "/cmd/scheduler",
		},
		manifests: []string{
			"deployments/kai-scheduler/crds/scheduling.run.ai_*.yaml",
			"deployments/kai-scheduler/crds/kai.scheduler_topologies.yaml",
		},
	}
	kaiBinderComponent = component{
		name: "kai-binder", dir: "kai", module: kaiModule, mainPackage: kaiModule + "/cmd/binder",
	}
)

// StartKAI runs the scheduler of KAI as a second scheduler, and its binder, which assigns the nodes. It creates a queue
// without limits. The pod grouper does not run: that of this version replaces the PodGroups of pods, which newer
// versions keep. The first call builds both programs. They stop with the cluster.
func (c *Cluster) StartKAI(ctx context.Context) error {
	path, err := c.installScheduler(ctx, kaiOperator)
	if err != nil {
		return err
	}
	binder, err := kaiBinderComponent.ensureBinary(ctx, c.progress)
	if err != nil {
		return err
	}
	if err := c.createKAIQueues(ctx); err != nil {
		return err
	}
	if err := c.linkKubeconfig(); err != nil {
		return err
	}
	for _, p := range []program{
		// The server for plugins listens on all addresses, except with an invalid port.
		{Name: kaiOperator.name, Path: path, Args: []string{
			"--listen-address=127.0.0.1:0", "--plugin-server-port=-1", "--update-pod-eviction-condition",
		}},
		{Name: kaiBinderComponent.name, Path: binder, Args: []string{
			"--metrics-bind-address=0", "--health-probe-bind-address=0",
		}},
	} {
		if err := c.startProgram(p); err != nil {
			return err
		}
	}
	return nil
}

// createKAIQueues creates [KAIQueue] and its parent. The scheduler only admits PodGroups to queues with a parent.
func (c *Cluster) createKAIQueues(ctx context.Context) error {
	const unlimited = "{quota: -1, limit: -1, overQuotaWeight: 1}"
	const parent = "default-parent-queue"
	for name, parentOfQueue := range map[string]string{parent: "", KAIQueue: parent} {
		manifest := fmt.Sprintf("{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, "+
			"spec: {parentQueue: %q, resources: {cpu: %s, gpu: %s, memory: %s}}}",
			name, parentOfQueue, unlimited, unlimited, unlimited)
		if _, err := c.KubectlWithInput(ctx, manifest, "create", "-f", "-"); err != nil {
			return fmt.Errorf("creating the queue %s of KAI: %w", name, err)
		}
	}
	return nil
}

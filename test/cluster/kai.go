package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
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
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	version := schema.GroupVersion{Group: "scheduling.run.ai", Version: "v2"}
	const parent, unlimited = "default-parent-queue", int64(-1)
	for name, parentOfQueue := range map[string]string{parent: "", KAIQueue: parent} {
		resources := map[string]any{}
		for _, resource := range []string{"cpu", "gpu", "memory"} {
			resources[resource] = map[string]any{"quota": unlimited, "limit": unlimited, "overQuotaWeight": int64(1)}
		}
		queue := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"parentQueue": parentOfQueue, "resources": resources},
		}}
		queue.SetGroupVersionKind(version.WithKind("Queue"))
		queue.SetName(name)
		_, err := client.Resource(version.WithResource("queues")).Create(ctx, queue, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating the queue %s of KAI: %w", name, err)
		}
	}
	return nil
}

package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// RunForAnnotation sets how long the containers of a pod on a simulated node run, for example
	// "5s". Without it, they run until the pod is deleted. Tests may also write the status of a
	// pod, which the simulation does not revert.
	RunForAnnotation = "test.rollcall.training/run-for"
	// ExitCodeAnnotation sets the exit code of the containers. The default is "0".
	ExitCodeAnnotation = "test.rollcall.training/exit-code"
)

//go:embed kwok_stages.yaml
var kwokStages []byte

// kwokNodeCapacity is the capacity of a simulated node: a large training machine that has room for
// many pods without GPUs.
var kwokNodeCapacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("256"),
	corev1.ResourceMemory:           resource.MustParse("2Ti"),
	corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
	corev1.ResourcePods:             resource.MustParse("1000"),
	"nvidia.com/gpu":                resource.MustParse("8"),
}

// kwokNodesPerMinute bounds the time until the simulated nodes are ready. Some hundreds become
// ready per second.
const kwokNodesPerMinute = 2000

// startKwok starts kwok and creates the nodes.
func (c *Cluster) startKwok(ctx context.Context) error {
	stages := filepath.Join(c.dir, "kwok.yaml")
	if err := os.WriteFile(stages, kwokStages, 0o600); err != nil {
		return fmt.Errorf("writing the stages of kwok: %w", err)
	}
	if err := c.startProgram(program{Name: "kwok", Path: c.binaries.kwok, Args: []string{
		"--kubeconfig=" + c.kubeconfigFile("kwok"),
		"--config=" + stages,
		"--manage-all-nodes",
		"--cidr=" + podCIDR,
		"--node-ip=" + bridgeIP,
		"--node-lease-duration-seconds=40", // as for a kubelet
	}}); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for i := range c.options.KwokNodes {
		if _, err := client.CoreV1().Nodes().Create(ctx, newKwokNode(i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a simulated node: %w", err)
		}
	}
	limit := startTimeout + time.Duration(c.options.KwokNodes)*time.Minute/kwokNodesPerMinute
	return c.waitUntilReady(ctx, "kwok", limit, func(ctx context.Context) error {
		return checkNodesReady(ctx, client, c.options.KwokNodes)
	})
}

func newKwokNode(index int) *corev1.Node {
	name := fmt.Sprintf("kwok-%d", index)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: goarch, "type": "kwok",
			},
		},
		Status: corev1.NodeStatus{
			Capacity: kwokNodeCapacity, Allocatable: kwokNodeCapacity,
			NodeInfo: corev1.NodeSystemInfo{Architecture: goarch, OperatingSystem: "linux", KubeletVersion: "kwok"},
		},
	}
}

// checkNodeReady returns nil if the node is ready and its kubelet may start pods.
func checkNodeReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	isReady := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
	// The taints are removed only after the condition is set. A cordoned node keeps its taint.
	isTainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key != corev1.TaintNodeUnschedulable
	})
	if !isReady || isTainted {
		return fmt.Errorf("node %s is not ready", name)
	}
	return nil
}

// checkNodesReady returns nil if the given number of nodes are ready and have no taints.
func checkNodesReady(ctx context.Context, client kubernetes.Interface, want int) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			// The not-ready taint is removed only after the condition is set.
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < want {
		return fmt.Errorf("%d of %d nodes are ready", ready, want)
	}
	return nil
}

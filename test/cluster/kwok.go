package cluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// RunForAnnotation is set on a pod of a simulated node to say how long its containers run, such as "5s". Without it
	// they run until the pod is deleted. A test can also write a pod's status itself: no stage undoes that.
	RunForAnnotation = "test.rollcall.training/run-for"
	// ExitCodeAnnotation is the code that they then exit with; "0" when absent.
	ExitCodeAnnotation = "test.rollcall.training/exit-code"
)

//go:embed kwok_stages.yaml
var kwokStages []byte

// kwokCapacity is what a simulated node has: a large training machine, with room for many pods without GPUs.
var kwokCapacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("256"),
	corev1.ResourceMemory:           resource.MustParse("2Ti"),
	corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
	corev1.ResourcePods:             resource.MustParse("1000"),
	"nvidia.com/gpu":                resource.MustParse("8"),
}

// nodesPerMinute bounds how long the simulated nodes may take to become ready; they come at some hundreds a second.
const nodesPerMinute = 2000

// startKwok starts kwok and makes the nodes.
func (c *Cluster) startKwok(ctx context.Context) error {
	stages := filepath.Join(c.dir, "kwok.yaml")
	if err := os.WriteFile(stages, kwokStages, 0o600); err != nil {
		return fmt.Errorf("writing the stages of kwok: %w", err)
	}
	if err := c.start(program{name: "kwok", path: c.bin.kwok, args: []string{
		"--kubeconfig=" + c.kubeconfigOf("kwok"),
		"--config=" + stages,
		"--manage-all-nodes",
		"--cidr=" + podCIDR,
		"--node-ip=" + bridgeIP,
		"--node-lease-duration-seconds=40", // As a kubelet's.
	}}); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for i := range c.options.KwokNodes {
		if _, err := client.CoreV1().Nodes().Create(ctx, kwokNode(i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a simulated node: %w", err)
		}
	}
	limit := startLimit + time.Duration(c.options.KwokNodes)*time.Minute/nodesPerMinute
	return c.await(ctx, "kwok", limit, func(ctx context.Context) error {
		return nodesReady(ctx, client, c.options.KwokNodes)
	})
}

func kwokNode(index int) *corev1.Node {
	name := fmt.Sprintf("kwok-%d", index)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: goarch, "type": "kwok",
			},
		},
		Status: corev1.NodeStatus{
			Capacity: kwokCapacity, Allocatable: kwokCapacity,
			NodeInfo: corev1.NodeSystemInfo{Architecture: goarch, OperatingSystem: "linux", KubeletVersion: "kwok"},
		},
	}
}

// nodesReady returns nil when that many nodes are ready and none is kept from taking pods.
func nodesReady(ctx context.Context, client kubernetes.Interface, want int) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			// The not-ready taint goes only a moment after the condition has come.
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

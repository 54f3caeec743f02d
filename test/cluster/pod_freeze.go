package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// FreezePod stops all processes of a pod on a real node with SIGSTOP, as a program that hangs. Connections
// stay open. ThawPod undoes it.
func (c *Cluster) FreezePod(ctx context.Context, namespace, name string) error {
	return c.signalPod(ctx, namespace, name, syscall.SIGSTOP)
}

// ThawPod undoes FreezePod.
func (c *Cluster) ThawPod(ctx context.Context, namespace, name string) error {
	return c.signalPod(ctx, namespace, name, syscall.SIGCONT)
}

func (c *Cluster) signalPod(ctx context.Context, namespace, name string, signal syscall.Signal) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("finding the pod: %w", err)
	}
	n, err := c.findNode(pod.Spec.NodeName)
	if err != nil {
		return fmt.Errorf("finding the node of pod %s: %w", name, err)
	}
	processes := n.listPodProcesses(pod.UID)
	if len(processes) == 0 {
		return fmt.Errorf("pod %s has no processes", name)
	}
	for _, process := range processes {
		if err := syscall.Kill(process.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sending a signal to pod %s: %w", name, err)
		}
	}
	return nil
}

// listPodProcesses returns the processes of a pod. Its control group is below that of its class of service,
// except for pods with guaranteed resources.
func (n realNode) listPodProcesses(uid types.UID) []processID {
	var found []processID
	for _, class := range []string{"", "burstable", "besteffort"} {
		for _, group := range findCgroups(filepath.Join(n.podsCgroup(), class, "pod"+string(uid))) {
			found = append(found, listCgroupProcesses(group)...)
		}
	}
	return found
}

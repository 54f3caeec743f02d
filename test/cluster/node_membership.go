package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodeComponents are the programs of a node in the order of their start. A node has the last one only if the cluster
// enforces NetworkPolicies.
var nodeComponents = []string{containerdName, "kubelet", "kube-proxy", networkPolicyAgentName}

// AddNode adds a real node, and returns its name when it is ready. It does not load images, except that of
// the pods' sandboxes: see LoadImage.
func (c *Cluster) AddNode(ctx context.Context) (string, error) {
	if c.state.Nodes != Real {
		return "", fmt.Errorf("adding a real node: cluster %s has nodes of kind %q", c.state.Name, c.state.Nodes)
	}
	n, err := createRealNodeDir(c.dir)
	if err != nil {
		return "", err
	}
	if err := c.startFurtherNode(ctx, n); err != nil {
		return "", errors.Join(err, c.removeNode(context.WithoutCancel(ctx), n))
	}
	return n.name(), nil
}

// startFurtherNode starts a node whose directory exists.
func (c *Cluster) startFurtherNode(ctx context.Context, n realNode) error {
	ca, err := loadAuthority(c.pkiDir(), "ca")
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		n.createNetworkNamespace,
		n.writeCNIConfig,
		n.createCgroups,
		func() error { return c.issueKubeletCertificate(ca, n) },
		func() error { return c.startNode(ctx, n) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// RemoveNode removes a further node from the cluster and from this machine. Its pods are killed and
// deleted.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	n, err := c.findFurtherNode(name)
	if err != nil {
		return err
	}
	return c.progress.runStep("removing "+name, func() error { return c.removeNode(ctx, n) })
}

func (c *Cluster) removeNode(ctx context.Context, n realNode) error {
	// Without its kubelet, the node does not register again.
	err := c.terminateComponents(n, "kubelet")
	isClean := false
	if _, running := c.state.findProcess(n.component(containerdName)); running {
		removed := removePodSandboxes(ctx, n.dir())
		isClean = removed == nil
		err = errors.Join(err, removed)
	}
	if err := errors.Join(
		err,
		c.terminateComponents(n, containerdName, "kube-proxy", networkPolicyAgentName),
		n.restoreMachine(isClean, c.state.Machine.ImageStore),
	); err != nil {
		return err
	}
	c.state.Processes = slices.DeleteFunc(c.state.Processes, func(p processRecord) bool {
		return slices.ContainsFunc(nodeComponents, func(name string) bool { return p.Name == n.component(name) })
	})
	if err := c.state.saveTo(c.dir); err != nil {
		return err
	}
	if err := c.deleteNodeObjects(ctx, n.name()); err != nil {
		return fmt.Errorf("deleting the node %s: %w", n.name(), err)
	}
	if err := os.RemoveAll(n.dir()); err != nil {
		return fmt.Errorf("removing the directory of node %s: %w", n.name(), err)
	}
	return nil
}

// deleteNodeObjects deletes a Node and its pods, which do not run. The controllers of Kubernetes would delete
// the pods later, but not if a node of the same name exists by then.
func (c *Cluster) deleteNodeObjects(ctx context.Context, name string) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// terminateComponents terminates programs of a node.
func (c *Cluster) terminateComponents(n realNode, names ...string) error {
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(c.state.Processes, func(p processRecord) bool { return p.Name == n.component(name) })
		if i < 0 {
			continue // the cluster does not enforce NetworkPolicies
		}
		process := &c.state.Processes[i]
		process.isDown = true
		if err := process.terminateProcess(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", process.Name, err))
		}
	}
	return errors.Join(errs...)
}

// restoreMachine removes everything that the node has outside of its directory. Its programs must have
// exited. isClean reports that its pods were removed in order. Otherwise its image store may be corrupt and
// is removed too.
func (n realNode) restoreMachine(isClean bool, firstImageStore string) error {
	store := n.imageStore(firstImageStore)
	if err := errors.Join(
		killContainers(n),
		unmountUnder(n.dir()),
		unmountUnder(store),
		removeFixedPathFiles(n.dir()),
		n.removeNetwork(),
		n.removeCgroups(),
	); err != nil {
		return err
	}
	if !isClean {
		if err := os.RemoveAll(store); err != nil {
			return fmt.Errorf("removing the image store: %w", err)
		}
	}
	return nil
}

// removeNetwork removes the links of the node on this machine, and their packet filter rules. The network
// namespace of a further node ends with its mount, because no process uses it.
func (n realNode) removeNetwork() error {
	if n.isMachine() {
		return errors.Join(removeBridge(), removePacketFilterRules(), removeAddressSets())
	}
	errs := []error{removeLink(n.link()), removeLinkRules(n.link())}
	err := unix.Unmount(n.networkFile(), unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !isNotExist(err) {
		errs = append(errs, fmt.Errorf("removing the network of node %s: %w", n.name(), err))
	}
	return errors.Join(append(errs, removeIfExists(n.networkFile()))...)
}

func (n realNode) removeCgroups() error {
	if n.isMachine() {
		return removeCgroups(podsCgroup)
	}
	return removeCgroups(n.cgroup())
}

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/lifecycle"
)

// hostOrderSync is what a process knows about the ConfigMap with the order of a launcher's hosts. ConfigMaps are not
// watched. The zero value means that it was neither written nor deleted.
type hostOrderSync struct {
	// owners are the UIDs of the members that the other fields describe.
	owners []types.UID
	// written is true if the order of the current pods was written.
	written bool
	// deleted is true if the order of the last pods was deleted.
	deleted bool
}

// ensureHostOrder writes the order of a launcher's hosts when all of them have nodes. The launcher waits for it. It
// deletes the order before the next attempt, whose pods can get other nodes.
func (r *Reconciler) ensureHostOrder(ctx context.Context, g *observedGang, next lifecycle.State) error {
	first := g.firstResult()
	if first.Children.HostOrder == "" || len(g.memberStates.Missing()) > 0 {
		return nil
	}
	s := &g.pass.session.hostOrder
	if owners := g.injectedUIDs(); !slices.Equal(s.owners, owners) { // an earlier gang of the same name
		*s = hostOrderSync{owners: owners}
	}
	switch next.Phase {
	case lifecycle.Restarting, lifecycle.Suspended:
		if s.deleted {
			return nil
		}
		if err := r.deleteHostOrder(ctx, first); err != nil {
			return err
		}
		s.written, s.deleted = false, true
	case lifecycle.Pending, lifecycle.Starting:
		if s.written {
			return nil
		}
		hosts, err := r.listBoundHosts(ctx, g, first.Gang)
		if err != nil || len(hosts) == 0 {
			return err
		}
		if err := r.writeHostOrder(ctx, g, first, hosts); err != nil {
			return err
		}
		s.written, s.deleted = true, false
	}
	return nil
}

// listBoundHosts returns the hosts with the names of their nodes as locations; nil if some have no node.
func (r *Reconciler) listBoundHosts(ctx context.Context, g *observedGang, own gang.Gang) ([]hostfile.Host, error) {
	var hosts []hostfile.Host
	for _, host := range own.HostMembers() {
		m := g.findMember(host.WorkloadName)
		if m == nil || !m.IsInjected() {
			return nil, nil
		}
		pods, err := r.listPods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return nil, err
		}
		bound := 0
		for i := range pods {
			pod := &pods[i]
			if pod.DeletionTimestamp == nil && !lifecycle.IsPodTerminal(pod) && pod.Spec.NodeName != "" {
				hosts = append(hosts, hostfile.Host{
					Workload: host.WorkloadName, Index: gang.PodIndex(pod), Location: []string{pod.Spec.NodeName},
				})
				bound++
			}
		}
		if bound != int(host.Size) {
			return nil, nil
		}
	}
	return hosts, nil
}

// orderHosts returns bound hosts in the order of the network.
func (r *Reconciler) orderHosts(ctx context.Context, hosts []hostfile.Host, own gang.Gang) (string, error) {
	nodes := make([]string, len(hosts))
	for i, host := range hosts {
		nodes[i] = host.Location[0]
	}
	labels, err := r.nodeLabels.find(ctx, r.APIReader, r.Clock.Now(), nodes, own.RankOrder)
	if err != nil {
		return "", err
	}
	for i := range hosts {
		name, location := hosts[i].Location[0], []string(nil)
		for _, label := range own.RankOrder {
			location = append(location, labels[name][label])
		}
		hosts[i].Location = append(location, name)
	}
	return hostfile.FormatOrder(hosts, own.Launcher.RunAsWorker), nil
}

// writeHostOrder creates or updates the ConfigMap with the order of bound hosts. It never changes a ConfigMap that
// Rollcall has not created or that is being deleted, and reads no nodes for it.
func (r *Reconciler) writeHostOrder(
	ctx context.Context, g *observedGang, first *injectors.Result, hosts []hostfile.Host,
) error {
	have, err := r.getHostOrder(ctx, first)
	if err != nil {
		return err
	}
	if have != nil && have.DeletionTimestamp != nil {
		return errChildChanging // a finalizer of a user can keep it
	}
	order, err := r.orderHosts(ctx, hosts, first.Gang)
	if err != nil {
		return err
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: first.Gang.Namespace, Name: first.Children.HostOrder, Labels: first.ChildLabels(),
		},
		Data: map[string]string{hostfile.OrderKey: order},
	}
	if err := r.setOwners(g, want); err != nil {
		return err
	}
	if have == nil {
		if err := r.Client.Create(ctx, want, FieldOwner); apierrors.IsAlreadyExists(err) {
			return errChildChanging
		} else if err != nil {
			return fmt.Errorf("creating the ConfigMap %s: %w", want.Name, err)
		}
		return nil
	}
	changed := have.DeepCopy()
	changed.Data, changed.OwnerReferences = want.Data, want.OwnerReferences
	return r.patchChild(ctx, "ConfigMap", have, changed)
}

// deleteHostOrder deletes the ConfigMap with the order if it exists.
func (r *Reconciler) deleteHostOrder(ctx context.Context, first *injectors.Result) error {
	have, err := r.getHostOrder(ctx, first)
	if err != nil || have == nil || have.DeletionTimestamp != nil {
		return err
	}
	return r.deleteChild(ctx, "ConfigMap", have)
}

// getHostOrder returns the ConfigMap with the order; nil if it does not exist.
func (r *Reconciler) getHostOrder(ctx context.Context, first *injectors.Result) (*corev1.ConfigMap, error) {
	have := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: first.Gang.Namespace, Name: first.Children.HostOrder}
	err := r.APIReader.Get(ctx, key, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", key.Name, err)
	case !isChildOf(have, first.Gang.Name):
		return nil, fmt.Errorf("the ConfigMap %s is not of this gang; delete it", key.Name)
	}
	return have, nil
}

const (
	// nodeLabelsLifetime is the time for which all gangs use the same labels of nodes.
	nodeLabelsLifetime = 30 * time.Second
	// nodesPerPage is the number of nodes that are read at once. 5,000 nodes with 130 labels need 193 MiB.
	nodesPerPage = 500
	// maxNodeLabels is the maximum number of labels that are kept for a gang that requests others.
	maxNodeLabels = 16
)

// nodeLabels are the labels of all nodes that gangs requested. Nodes are not watched. The zero value has none. It is
// safe for concurrent use.
type nodeLabels struct {
	mu       sync.Mutex
	readTime time.Time
	keys     []string
	byNode   map[string]map[string]string // never changed, because several passes read it
}

// find returns the labels with the given keys of at least the given nodes. It reads all nodes if the last labels are
// too old, or do not have one of the keys or of the nodes. Other passes wait.
func (n *nodeLabels) find(
	ctx context.Context, reader client.Reader, now time.Time, nodes, keys []string,
) (map[string]map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	isMissing := func(key string) bool { return !slices.Contains(n.keys, key) }
	isUnknown := func(node string) bool { _, ok := n.byNode[node]; return !ok }
	isOld := now.Sub(n.readTime) >= nodeLabelsLifetime
	if !isOld && !slices.ContainsFunc(keys, isMissing) && !slices.ContainsFunc(nodes, isUnknown) {
		return n.byNode, nil
	}
	if !isOld && len(n.keys)+len(keys) <= maxNodeLabels {
		keys = slices.Compact(slices.Sorted(slices.Values(slices.Concat(n.keys, keys))))
	}
	byNode, err := readNodeLabels(ctx, reader, keys)
	if err != nil {
		return nil, err
	}
	n.readTime, n.keys, n.byNode = now, keys, byNode
	return byNode, nil
}

// readNodeLabels returns the labels with the given keys of all nodes. It reads the nodes in pages, because all labels
// of all nodes need hundreds of megabytes.
func readNodeLabels(ctx context.Context, reader client.Reader, keys []string) (map[string]map[string]string, error) {
	byNode := map[string]map[string]string{}
	for next := ""; ; {
		nodes := &metav1.PartialObjectMetadataList{}
		nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := reader.List(ctx, nodes, client.Limit(nodesPerPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("reading the labels of nodes: %w", err)
		}
		for _, node := range nodes.Items {
			labels := make(map[string]string, len(keys))
			for _, key := range keys {
				if value := node.Labels[key]; value != "" {
					labels[key] = value
				}
			}
			byNode[node.Name] = labels
		}
		if next = nodes.Continue; next == "" {
			return byNode, nil
		}
	}
}

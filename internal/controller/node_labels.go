package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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

package integration

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// rackLabel is the label of a node with its rack.
const rackLabel = "example.com/rack"

// TestKueueTopology places gangs by the topology-aware scheduling of Kueue on two racks of two nodes.
func TestKueueTopology(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: 4})
	m := &manager{installation.New(t, c)}
	racks := m.labelRacks(t, 2)
	if err := c.StartKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.applyManifest(t, "", fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: %s}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
spec: {nodeLabels: {kubernetes.io/os: linux}, topologyName: racks}
`, rackLabel))
	ns := m.createNamespace(t)
	m.createQueue(t, ns, 32)
	// Each node has 8 GPUs.
	for name, test := range map[string]struct {
		key, value, gpus string
		want             [][]int // sets of ranks, each in one rack
	}{
		"all ranks in one rack": {
			key: gang.AnnotationTopology, value: rackLabel, gpus: "4", want: [][]int{{0, 1, 2, 3}},
		},
		"each segment in one rack": {
			key: gang.AnnotationSegment, value: rackLabel + "/2", gpus: "8", want: [][]int{{0, 1}, {2, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			workloads := assignQueue("train", newTrainingWorkload(4, test.key, test.value))
			workloads[0].Job.Annotations[gang.AnnotationGPUs] = test.gpus
			r := m.createGang(t, ns, workloads...)
			for attempt := range int32(2) {
				r.waitForPhase(lifecycle.Running, attempt)
				pods := r.listActivePods()
				for _, ranks := range test.want {
					got, want := make([]string, len(ranks)), make([]string, len(ranks))
					for i, rank := range ranks {
						got[i] = racks[pods[fmt.Sprintf("worker-%d", rank)].Spec.NodeName]
						want[i] = got[0]
					}
					if diff := cmp.Diff(want, got); diff != "" || got[0] == "" {
						t.Errorf("attempt %d: racks of the ranks %v (-want +got):\n%s", attempt, ranks, diff)
					}
				}
				if attempt == 0 {
					r.failContainer(pods["worker-1"], 3)
				}
			}
			r.deleteGang()
		})
	}
}

// labelRacks labels the simulated nodes, so that each rack has a number of nodes. It returns the rack of each node.
func (m *manager) labelRacks(t *testing.T, nodesPerRack int) map[string]string {
	t.Helper()
	nodes, err := m.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	racks := map[string]string{}
	for i, node := range nodes.Items {
		racks[node.Name] = fmt.Sprintf("r%d", i/nodesPerRack)
		m.labelNode(t, node.Name, rackLabel, strconv.Quote(racks[node.Name]))
	}
	return racks
}

// labelNode sets a label of a node to a value in JSON; null removes the label.
func (m *manager) labelNode(t *testing.T, node, label, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, label, value)
	_, err := m.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

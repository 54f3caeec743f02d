package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// launcherLabel is the label of the node on which the launcher can run.
const launcherLabel = "example.com/launcher"

// TestRankOrder orders 64 hosts on 16 nodes in 4 racks, and counts the edges of the ring of ranks that cross racks.
func TestRankOrder(t *testing.T) {
	const hosts, nodes, racks = 64, 16, 4
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodes})
	m := &manager{installation.NewWithChart(t, c, []string{"--set", "permissions.orderRanks=true"})}
	rackOf := m.labelRacks(t, nodes/racks)
	launcherNode := slices.Min(slices.Collect(maps.Keys(rackOf)))
	ns := m.createNamespace(t)
	roles := fmt.Sprintf("launcher=1,worker=%d", hosts)
	launcher := newMemberJob("launcher", 1, roles, gang.AnnotationRankOrder, rackLabel)
	// A simulated node does not wait for the ConfigMap. So the launcher has a node only when the ConfigMap exists.
	launcher.Job.Spec.Template.Spec.NodeSelector = map[string]string{launcherLabel: "true"}
	worker := newMemberJob("worker", hosts, roles, gang.AnnotationGPUs, "2") // 4 hosts on each node of 8 GPUs
	for _, w := range []gang.Workload{launcher, worker} {
		w.Job.Labels[gang.LabelFramework] = "mpi"
	}
	before := m.countWrites(t)
	r := m.createGang(t, ns, launcher, worker)
	name, last := fmt.Sprintf("train-rollcall-hosts-%d", hosts), types.UID("")
	for attempt := range int32(2) {
		order := m.waitForHostOrder(t, ns, name, last) // the order of the first attempt is deleted
		last = order.UID
		m.labelNode(t, launcherNode, launcherLabel, `"true"`)
		r.waitForPhase(lifecycle.Running, attempt)
		pods := r.listActivePods()
		var byIndex, byNetwork []string // racks
		for i := range hosts {
			byIndex = append(byIndex, rackOf[pods[fmt.Sprintf("worker-%d", i)].Spec.NodeName])
		}
		for _, i := range parseHosts(t, order.Data[hostfile.OrderKey]) {
			byNetwork = append(byNetwork, byIndex[i])
		}
		got := countCrossingEdges(byNetwork)
		t.Logf("attempt %d: %d of %d edges cross racks in the order of the indexes, %d in the order of the network; "+
			"%v writes", attempt, countCrossingEdges(byIndex), hosts, got, m.countWritesSince(t, before))
		if len(byNetwork) != hosts || got != racks {
			t.Errorf("%d hosts with %d edges that cross racks, want %d with %d", len(byNetwork), got, hosts, racks)
		}
		if attempt == 0 {
			before = m.countWrites(t)
			m.labelNode(t, launcherNode, launcherLabel, "null")
			r.failContainer(pods["worker-1"], 3)
		}
	}
}

// waitForHostOrder waits for an order of hosts other than the last one.
func (m *manager) waitForHostOrder(t *testing.T, ns, name string, last types.UID) *corev1.ConfigMap {
	t.Helper()
	var out *corev1.ConfigMap
	wait.For(t, "the order of the hosts", func(ctx context.Context) (err error) {
		out, err = m.Client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && out.UID == last {
			err = errors.New("it is that of the last attempt")
		}
		return err
	})
	return out
}

// parseHosts returns the indexes of the workers in an order of hosts, each once.
func parseHosts(t *testing.T, text string) []int {
	t.Helper()
	var out []int
	for line := range strings.SplitSeq(text, "\n") {
		var first, last int
		if _, err := fmt.Sscanf(line, "train-worker %d %d", &first, &last); err != nil {
			t.Fatal(errors.Join(err, errors.New(line)))
		}
		for i := first; i <= last; i++ {
			if slices.Contains(out, i) {
				t.Fatalf("%d is twice in %s", i, text)
			}
			out = append(out, i)
		}
	}
	return out
}

// countCrossingEdges returns how many neighbors in a ring are in different racks.
func countCrossingEdges(racks []string) int {
	n := 0
	for i, rack := range racks {
		if rack != racks[(i+1)%len(racks)] {
			n++
		}
	}
	return n
}

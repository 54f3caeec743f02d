package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/wait"
)

func TestSlownessQueue(t *testing.T) {
	for _, test := range []struct {
		reason string
		slow   Slowness
		want   string
	}{
		{"a rate needs no network emulator", Slowness{Rate: "1mbit"}, "tbf rate 1mbit burst 16kb latency 200ms"},
		{"the network emulator delays packets", Slowness{Delay: "50ms"}, "netem delay 50ms"},
		{
			"the network emulator has all kinds of faults",
			Slowness{Rate: "1mbit", Delay: "50ms", Loss: "5%"}, "netem delay 50ms loss 5% rate 1mbit",
		},
	} {
		if got := strings.Join(test.slow.queue(), " "); got != test.want {
			t.Errorf("%s: the queue is %q, want %q", test.reason, got, test.want)
		}
	}
}

// twoNodes is a cluster with two real nodes and a pod on each. The pods and their Services are called first
// and second.
type twoNodes struct {
	*Cluster
	client kubernetes.Interface
	// node is the second node.
	node string
}

// mustRun fails the test if one of the errors is not nil.
func mustRun(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (c twoNodes) getPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	mustRun(t, err)
	return pod
}

// probeFrom runs the probe in a pod. A kubelet that has just started does not know its pods yet.
func (c twoNodes) probeFrom(t *testing.T, name string, targets ...string) (out string) {
	t.Helper()
	wait.For(t, fmt.Sprintf("the probe of %q from the pod %s", targets, name), func(ctx context.Context) (err error) {
		out, err = c.Kubectl(ctx, append([]string{"exec", name, "--", "/probe"}, targets...)...)
		return err
	})
	return out
}

func (c twoNodes) address(t *testing.T, name string) string {
	t.Helper()
	return c.getPod(t, name).Status.PodIP + ":8080"
}

func (c twoNodes) deleteService(t *testing.T, name string) error {
	t.Helper()
	return c.client.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{})
}

func TestRealNodesFaults(t *testing.T) {
	requireRealNodes(t)
	c := twoNodes{Cluster: Start(t, Options{
		Nodes: Real, RealNodes: 2,
		NodeLabels: []string{"example.com/rack=a", "example.com/rack=b,topology.kubernetes.io/zone=b"},
	})}
	names := c.RealNodes()
	c.node = names[1]
	var err error
	c.client, err = kubernetes.NewForConfig(c.Config())
	mustRun(t, err)
	mustRun(t, runPodOnNode(t.Context(), c.Cluster, "first", names[0]))
	mustRun(t, runPodOnNode(t.Context(), c.Cluster, "second", c.node))
	// The steps share the cluster, and each undoes its fault.
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the nodes have their labels", c.testLabels},
		{"pods of different nodes reach each other", c.testNetwork},
		{"containers of a stopped node keep running", c.testStop},
		{"a cut node is not reached until it is healed", c.testCut},
		{"both ends of a slow link have a queue", c.testSlow},
		{"all processes of a frozen pod are stopped", c.testFreeze},
		{"a killed node loses its containers", c.testKill},
		{"a drained node has no pods", c.testDrain},
		{"a removed node leaves nothing on the machine", c.testRemove},
		{"the first node has no faults that affect the control plane", c.testFirstNode},
		{"a killed node can be removed", c.testRemoveKilled},
	} {
		if !t.Run(step.name, step.run) {
			break
		}
	}
}

func (c twoNodes) testLabels(t *testing.T) {
	for i, want := range []map[string]string{
		{"example.com/rack": "a"}, {"example.com/rack": "b", corev1.LabelTopologyZone: "b"},
	} {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), c.RealNodes()[i], metav1.GetOptions{})
		mustRun(t, err)
		for key, value := range want {
			if node.Labels[key] != value {
				t.Errorf("node %s has the labels %v, want %s=%s", node.Name, node.Labels, key, value)
			}
		}
	}
}

func (c twoNodes) testNetwork(t *testing.T) {
	for from, to := range map[string]string{"first": "second", "second": "first"} {
		out := c.probeFrom(t, from, to, to+":8080", c.address(t, to), "kubernetes.default.svc:443")
		if strings.Count(out, "connected") != 3 {
			t.Errorf("the pod %s printed %q, want 3 connections", from, out)
		}
		if _, err := c.Kubectl(t.Context(), "logs", from); err != nil {
			t.Error(err)
		}
	}
	first, second := c.getPod(t, "first"), c.getPod(t, "second")
	if first.Status.HostIP == second.Status.HostIP {
		t.Errorf("both pods are on the node with the address %s", first.Status.HostIP)
	}
}

func (c twoNodes) testStop(t *testing.T) {
	before := c.getPod(t, "second").Status.ContainerStatuses[0].ContainerID
	mustRun(t, c.StopNode(c.node))
	if started, err := c.RestartExited(); len(started) > 0 || err != nil {
		t.Errorf("the stopped programs %q were started, %v", started, err)
	}
	c.probeFrom(t, "first", c.address(t, "second"))
	if _, err := c.Kubectl(t.Context(), "logs", "second"); err == nil {
		t.Error("the kubelet of the stopped node responds")
	}
	mustRun(t, c.StartNode(t.Context(), c.node))
	c.probeFrom(t, "second", "first:8080")
	if after := c.getPod(t, "second").Status.ContainerStatuses[0].ContainerID; after != before {
		t.Errorf("the container %s was replaced by %s", before, after)
	}
}

func (c twoNodes) testCut(t *testing.T) {
	second := c.address(t, "second")
	mustRun(t, c.CutNode(c.node))
	c.probeFrom(t, "first", "!"+second)
	mustRun(t, c.HealNode(c.node))
	c.probeFrom(t, "first", second, "second:8080")
}

func (c twoNodes) testSlow(t *testing.T) {
	n, err := c.findNode(c.node)
	mustRun(t, err, c.SlowNode(c.node, Slowness{Rate: "1mbit"}))
	countQueues := func() int {
		machine, err := runCommand("tc", "qdisc", "show", "dev", n.link())
		mustRun(t, err)
		node, err := n.runCommand("tc", "qdisc", "show", "dev", uplinkName)
		mustRun(t, err)
		return strings.Count(machine+node, "rate 1Mbit")
	}
	if got := countQueues(); got != 2 {
		t.Errorf("%d ends of the link are slow, want 2", got)
	}
	mustRun(t, c.HealNode(c.node))
	if got := countQueues(); got != 0 {
		t.Errorf("%d ends of the healed link are slow", got)
	}
	c.probeFrom(t, "first", "second:8080")
}

func (c twoNodes) testFreeze(t *testing.T) {
	n, err := c.findNode(c.node)
	mustRun(t, err)
	countStopped := func() (stopped, all int) {
		processes := n.listPodProcesses(c.getPod(t, "second").UID)
		for _, process := range processes {
			_, status, err := readProcStat(process.PID)
			mustRun(t, err)
			if status == 'T' {
				stopped++
			}
		}
		return stopped, len(processes)
	}
	mustRun(t, c.FreezePod(t.Context(), "default", "second"))
	wait.For(t, "the processes to stop", func(context.Context) error {
		if stopped, all := countStopped(); stopped < 2 || stopped != all {
			return fmt.Errorf("%d of %d are stopped", stopped, all)
		}
		return nil
	})
	mustRun(t, c.ThawPod(t.Context(), "default", "second"))
	if stopped, _ := countStopped(); stopped > 0 {
		t.Errorf("%d processes of the thawed pod are stopped", stopped)
	}
	c.probeFrom(t, "first", "second:8080")
}

func (c twoNodes) testKill(t *testing.T) {
	n, err := c.findNode(c.node)
	mustRun(t, err)
	second := c.address(t, "second")
	mustRun(t, c.KillNode(c.node))
	c.probeFrom(t, "first", "!"+second)
	living := findShims(containerdSocket(n.dir()))
	for _, group := range findCgroups(n.cgroup()) {
		living = append(living, listCgroupProcesses(group)...)
	}
	if len(living) > 0 {
		t.Errorf("the killed node has processes: %v", living)
	}
	mustRun(t, c.StartNode(t.Context(), c.node))
	wait.For(t, "the restart of the container", func(context.Context) error {
		status := c.getPod(t, "second").Status.ContainerStatuses[0]
		if status.RestartCount != 1 || !status.Ready {
			return fmt.Errorf("the status is %+v", status)
		}
		return nil
	})
	c.probeFrom(t, "first", "second:8080")
}

func (c twoNodes) testDrain(t *testing.T) {
	isCordoned := func() bool {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), c.node, metav1.GetOptions{})
		mustRun(t, err)
		return node.Spec.Unschedulable
	}
	mustRun(t, c.CordonNode(t.Context(), c.node))
	if !isCordoned() {
		t.Error("the cordoned node accepts pods")
	}
	mustRun(t, c.DrainNode(t.Context(), c.node))
	_, err := c.client.CoreV1().Pods("default").Get(t.Context(), "second", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("getting the pod of the drained node returned the error %v, want a NotFound error", err)
	}
	mustRun(t, c.UncordonNode(t.Context(), c.node))
	if isCordoned() {
		t.Error("the uncordoned node accepts no pods")
	}
}

func (c twoNodes) testRemove(t *testing.T) {
	n, err := c.findNode(c.node)
	mustRun(t, err, c.deleteService(t, "second"), runPodOnNode(t.Context(), c.Cluster, "second", c.node))
	mustRun(t, c.RemoveNode(t.Context(), c.node))
	c.checkNothingLeft(t, n)
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	mustRun(t, err)
	if len(nodes.Items) != 1 || len(c.RealNodes()) != 1 {
		t.Errorf("the cluster has the nodes %v, want only the first", c.RealNodes())
	}
	added, err := c.AddNode(t.Context())
	mustRun(t, err, c.deleteService(t, "second"))
	mustRun(t, runPodOnNode(t.Context(), c.Cluster, "second", added))
	c.probeFrom(t, "first", "second:8080")
	c.probeFrom(t, "second", "first:8080")
}

// checkNothingLeft checks that nothing of a removed node exists on the machine.
func (c twoNodes) checkNothingLeft(t *testing.T, n realNode) {
	t.Helper()
	for _, trace := range findMachineLeftovers(t, c.Dir()) {
		for _, of := range []string{n.dir(), n.networkFile(), n.name(), linkPrefix} {
			if strings.Contains(trace, of) {
				t.Errorf("the removed node left %s", trace)
			}
		}
	}
	results, err := filepath.Glob(cniResultsDir + "/*")
	mustRun(t, err)
	for _, result := range results {
		if !slices.ContainsFunc(listPodDirs(c.Dir()), func(dir string) bool {
			return strings.Contains(result, filepath.Base(dir))
		}) {
			t.Errorf("the removed node left %s", result)
		}
	}
}

func (c twoNodes) testRemoveKilled(t *testing.T) {
	n, err := c.findNode(c.node)
	mustRun(t, err, c.KillNode(c.node), c.RemoveNode(t.Context(), c.node))
	c.checkNothingLeft(t, n)
}

func (c twoNodes) testFirstNode(t *testing.T) {
	first := c.RealNodes()[0]
	for fault, err := range map[string]error{
		"cut": c.CutNode(first), "kill": c.KillNode(first), "remove": c.RemoveNode(t.Context(), first),
	} {
		if err == nil || !strings.Contains(err.Error(), "control plane") {
			t.Errorf("%s of the first node returned the error %v", fault, err)
		}
	}
	before := c.getPod(t, "first").Status.ContainerStatuses[0].ContainerID
	mustRun(t, c.StopNode(first), c.StartNode(t.Context(), first))
	if after := c.getPod(t, "first").Status.ContainerStatuses[0].ContainerID; after != before {
		t.Errorf("the container %s was replaced by %s", before, after)
	}
	c.probeFrom(t, "first", "second:8080")
}

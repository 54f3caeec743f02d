package integration

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
	"rollcall.training/test/wait"
)

// newAvoidingGang returns a Job of two ranks with a device each, whose gang avoids nodes.
func newAvoidingGang(ns string, annotations ...string) gang.Workload {
	annotations = append(annotations, gang.AnnotationAvoidNodes, "auto", gang.AnnotationGPUs, "1")
	return scheduleOnFakeNodes(newTrainingWorkload(2, annotations...), ns)
}

// reportUnhealthyDevice reports that the device of a pod is unhealthy, as a kubelet does. It skips the test if the API
// server drops the report.
func (r *testGang) reportUnhealthyDevice(p corev1.Pod) {
	r.t.Helper()
	podtest.SetDeviceHealth(&p.Status.ContainerStatuses[0], corev1.ResourceHealthStatusUnhealthy)
	r.patchPodStatus(p)
	now, err := r.Client.CoreV1().Pods(r.ns).Get(r.t.Context(), p.Name, metav1.GetOptions{})
	if err == nil && len(now.Status.ContainerStatuses[0].AllocatedResourcesStatus) == 0 {
		r.t.Skip("the API server has no ResourceHealthStatus, which is on from Kubernetes 1.36")
	}
}

// checkExcluded checks the required node affinity of the Job: that of scheduleOnFakeNodes, and the excluded nodes.
// Other tests can cause suspects, which are preferences.
func (r *testGang) checkExcluded(nodes ...string) {
	r.t.Helper()
	all, err := r.getWorkloads(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	want := scheduleOnFakeNodes(newTrainingWorkload(2), r.ns)
	want.ReplaceExcludedNodes(nil, nodes)
	got := all[0].Template().Spec.Affinity.DeepCopy()
	got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = nil
	if diff := cmp.Diff(want.Template().Spec.Affinity, got); diff != "" {
		r.t.Errorf("affinity (-want +got):\n%s", diff)
	}
	for name, p := range r.listActivePods() {
		if slices.Contains(nodes, p.Spec.NodeName) {
			r.t.Errorf("%s is on the excluded node %s", name, p.Spec.NodeName)
		}
	}
}

// testAvoidUnhealthyDevice checks that a gang restarts when a kubelet reports an unhealthy device, that it uses up no
// restart, and that the next attempt excludes the node.
func testAvoidUnhealthyDevice(t *testing.T, m *manager, ns string) {
	m.startFakeNodes(t, ns, 3)
	checkAvoidedDevice(m.createGang(t, ns, newAvoidingGang(ns)))
}

// testKueueAvoidsNode checks the same with a Job in a queue, which Kueue resumes.
func testKueueAvoidsNode(t *testing.T, m *manager, ns string) {
	m.startFakeNodes(t, ns, 3)
	m.createQueue(t, ns, 3)
	checkAvoidedDevice(m.createGang(t, ns, assignQueue("train", newAvoidingGang(ns))...))
}

func checkAvoidedDevice(r *testGang) {
	r.t.Helper()
	r.waitForPhase(lifecycle.Running, 0)
	sick := r.getActivePod("worker-1")
	begin := time.Now()
	r.reportUnhealthyDevice(sick)
	s := r.waitForPhase(lifecycle.Running, 1)
	r.t.Logf("running again %.1f s after the report", time.Since(begin).Seconds())
	f := s.FirstFailure
	if s.Restarts != 0 || f == nil || f.Rank != 1 ||
		f.Reason != failure.ReasonDeviceUnhealthy || f.Node != sick.Spec.NodeName {
		r.t.Errorf("%d restarts, first failure %+v", s.Restarts, f)
	}
	if nodes := s.AvoidedNodes(); !slices.Equal(nodes, []string{sick.Spec.NodeName}) {
		r.t.Errorf("the gang avoids %v", nodes)
	}
	r.checkExcluded(sick.Spec.NodeName)
	r.checkShown("Avoids nodes: " + sick.Spec.NodeName + " (DeviceUnhealthy) until ")
	r.checkPhaseStable(3 * time.Second)
}

// testAvoidNodeAfterTwoFailures checks that a node is excluded after its second first failure, that its pod waits until
// another node is free, and that the template is that of the user after the annotation was changed.
func testAvoidNodeAfterTwoFailures(t *testing.T, m *manager, ns string) {
	m.startFakeNodes(t, ns, 3)
	m.setUnschedulable(t, ns+"-2", true)
	r := m.createGang(t, ns, newAvoidingGang(ns))
	r.waitForPhase(lifecycle.Running, 0)
	bad := ns + "-1"
	for restarts := range int32(2) {
		r.checkExcluded()
		r.failContainer(r.findPodOnNode(bad), 3)
		if restarts == 0 {
			r.waitForPhase(lifecycle.Running, 1)
		}
	}
	r.waitForPhase(lifecycle.Pending, 2)
	m.setUnschedulable(t, ns+"-2", false)
	r.waitForPhase(lifecycle.Running, 2)
	r.checkExcluded(bad)
	r.checkShown("Avoids nodes: " + bad + " (ranks failed first 2 times) until ")

	r.patchJob("train", fmt.Sprintf(`{"metadata":{"annotations":{%q:"off"}}}`, gang.AnnotationAvoidNodes))
	r.deletePod(r.getActivePod("worker-0"))
	r.waitForPhase(lifecycle.Running, 3)
	r.checkExcluded()
}

// testSuspectNode checks that a node on which gangs of two namespaces failed first is reported and not preferred, and
// that a gang still uses it if no other node is free.
func testSuspectNode(t *testing.T, m *manager, ns string) {
	m.startFakeNodes(t, ns, 1)
	nodes, ended := fakeNodes{manager: m, ns: m.createNamespace(t)}, make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			nodes.syncPods(t.Context())
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { <-ended })
	other := m.createGang(t, nodes.ns, scheduleOnFakeNodes(newTrainingWorkload(1), ns))
	r := m.createGang(t, ns, scheduleOnFakeNodes(newTrainingWorkload(1, gang.AnnotationAvoidNodes, "auto"), ns))
	suspect := ns + "-0"
	for _, g := range []*testGang{other, r} {
		g.waitForPhase(lifecycle.Running, 0)
		g.failContainer(g.findPodOnNode(suspect), 139)
		s := g.waitForPhase(lifecycle.Running, 1)
		if isKnown := slices.Contains(s.SuspectNodes, suspect); isKnown != (g == r) {
			t.Errorf("the status of the gang in %s records the suspects %v", g.ns, s.SuspectNodes)
		}
	}
	all, err := r.getWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	preferred := all[0].Template().Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || !slices.Contains(preferred[0].Preference.MatchExpressions[0].Values, suspect) {
		t.Errorf("preferences %v", preferred)
	}
	r.findPodOnNode(suspect)
	wait.For(t, "the Event on the node", func(ctx context.Context) error {
		list, err := m.Client.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=" + string(gang.ReasonNodeSuspected),
		})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == suspect }) {
			return fmt.Errorf("%d Events", len(list.Items))
		}
		return nil
	})
	out, err := exec.CommandContext(t.Context(), buildCommand(t), "status", "--nodes", "-A",
		"--kubeconfig", m.Cluster.Kubeconfig()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), suspect+"  yes ") {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("rollcall status --nodes prints\n%s", out)
}

// checkShown checks that rollcall status prints a text about the gang.
func (r *testGang) checkShown(text string) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), buildCommand(r.t), "status", "train", "-n", r.ns,
		"--kubeconfig", r.Cluster.Kubeconfig()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), text) {
		r.t.Errorf("want %q in the output (%v):\n%s", text, err, out)
	}
	r.t.Logf("rollcall status prints\n%s", out)
}

// findPodOnNode returns the active pod of the gang on a node.
func (r *testGang) findPodOnNode(node string) corev1.Pod {
	r.t.Helper()
	for _, p := range r.listActivePods() {
		if p.Spec.NodeName == node {
			return p
		}
	}
	r.t.Fatalf("no pod is on %s", node)
	return corev1.Pod{}
}

// setUnschedulable cordons or uncordons a node.
func (m *manager) setUnschedulable(t *testing.T, node string, unschedulable bool) {
	t.Helper()
	wait.For(t, "the change of "+node, func(ctx context.Context) error {
		_, err := m.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable), metav1.PatchOptions{})
		return err
	})
}

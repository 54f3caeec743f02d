package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
	"rollcall.training/test/wait"
)

// fakeNodes are nodes for the pods of one namespace. The test acts as their kubelet: it runs pods,
// and deletes them when they are terminated. The scheduler and the node lifecycle controller, with
// its evictions, are real.
type fakeNodes struct {
	*manager
	t  *testing.T
	ns string

	mu          sync.Mutex
	unreachable map[string]bool
}

// fakeNodeTaint keeps the pods of other tests away from the nodes.
const fakeNodeTaint = "test.rollcall.training/namespace"

func (m *manager) startFakeNodes(t *testing.T, ns string, count int) *fakeNodes {
	t.Helper()
	n := &fakeNodes{manager: m, t: t, ns: ns, unreachable: map[string]bool{}}
	for i := range count {
		name := fmt.Sprintf("%s-%d", ns, i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, "example.com/gpu": "a100",
		}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: fakeNodeTaint, Value: ns, Effect: corev1.TaintEffectNoSchedule}}}}
		if _, err := m.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			n.syncPods(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	beats := make(chan struct{})
	go func() { // reports continuously: a node without a report for 40 s is considered lost
		defer close(beats)
		for ctx.Err() == nil {
			n.reportNodeStatus(ctx, count)
			time.Sleep(2 * time.Second)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; <-beats })
	return n
}

// reportNodeStatus reports the nodes as ready. It reports unreachable nodes as not ready, as the
// control plane does 40 s after the last report of a kubelet.
func (n *fakeNodes) reportNodeStatus(ctx context.Context, count int) {
	for i := range count {
		name := fmt.Sprintf("%s-%d", n.ns, i)
		ready := corev1.ConditionTrue
		if n.isUnreachable(name) {
			ready = corev1.ConditionFalse
		}
		room := corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("8"),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("20"),
			podtest.GPU:           resource.MustParse("8"),
		}
		patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{
				{
					Type:               corev1.NodeReady,
					Status:             ready,
					Reason:             "Test",
					LastHeartbeatTime:  metav1.Now(),
					LastTransitionTime: metav1.Now(),
				}}}})
		if err == nil { // a rejected write is repeated in the next report
			_, _ = n.Client.CoreV1().Nodes().Patch(
				ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status",
			)
		}
	}
}

func (n *fakeNodes) isUnreachable(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unreachable[node]
}

// makeUnreachable makes a node stop responding.
func (n *fakeNodes) makeUnreachable(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unreachable[node] = true
}

// syncPods updates the pods as the kubelets do.
func (n *fakeNodes) syncPods(ctx context.Context) {
	list, err := n.Client.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range list.Items {
		switch {
		case p.Spec.NodeName == "" || n.isUnreachable(p.Spec.NodeName):
		case p.DeletionTimestamp != nil:
			_ = n.Client.CoreV1().Pods(n.ns).Delete(ctx, p.Name, metav1.DeleteOptions{
				GracePeriodSeconds: ptr.To[int64](0),
				Preconditions:      metav1.NewUIDPreconditions(string(p.UID)),
			})
		case p.Status.StartTime == nil && p.Status.Phase == corev1.PodPending:
			n.reportPodRunning(ctx, p)
		}
	}
}

// scheduleOnFakeNodes schedules the pods of a gang on the nodes of the namespace, one per node. The
// pods tolerate an unreachable node for some seconds, so that one late report does not evict them.
func scheduleOnFakeNodes(w gang.Workload, ns string) gang.Workload {
	spec := &w.Template().Spec
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key:      fakeNodeTaint,
		Operator: corev1.TolerationOpEqual,
		Value:    ns,
	})
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key:               key,
			Operator:          corev1.TolerationOpExists,
			Effect:            corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](6),
		})
	}
	spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{gang.LabelGang: "train"},
			}}}},
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{ns + "-0", ns + "-1", ns + "-2"}},
				}}}}},
	}
	return w
}

// loseNodeOfRank1 makes the node of rank 1 unreachable, and waits until the status names the pod
// that blocks the restart. It returns the pod.
func (n *fakeNodes) loseNodeOfRank1(r *testGang) corev1.Pod {
	n.t.Helper()
	lost := r.getActivePod("worker-1")
	n.makeUnreachable(lost.Spec.NodeName)
	begin := time.Now()
	wait.For(n.t, "the failure", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		s := lifecycle.ReadStatus(all[0])
		if s.Disruptions != 1 || s.Restarts != 0 || s.FirstFailure == nil || s.FirstFailure.Rank != 1 ||
			s.FirstFailure.Reason != "DeletionByTaintManager" ||
			s.FirstFailure.Node != lost.Spec.NodeName {
			return fmt.Errorf("%s with %d disruptions: %s", s.Phase, s.Disruptions, s.Message)
		}
		return nil
	})
	n.t.Logf("the gang failed %.1f s after the node", time.Since(begin).Seconds())
	wait.For(n.t, "the status to name the pod", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		if s := lifecycle.ReadStatus(all[0]); s.Reason != gang.ReasonPodStuckTerminating ||
			!strings.Contains(s.Message, "Pod "+lost.Name) ||
			!strings.Contains(s.Message, "node "+lost.Spec.NodeName) {
			return fmt.Errorf("%s: %s", s.Reason, s.Message)
		}
		return nil
	})
	n.waitForEvent(n.t, n.ns, gang.ReasonPodStuckTerminating)
	n.t.Logf("the status named the pod %.1f s after the node failed", time.Since(begin).Seconds())
	return lost
}

// forceDeletePod deletes a pod as an administrator does who knows that the machine is off.
func (n *fakeNodes) forceDeletePod(p corev1.Pod) {
	n.t.Helper()
	err := n.Client.CoreV1().Pods(n.ns).Delete(n.t.Context(), p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// testRestartNodeLost checks that a Job with a rank on an unreachable node restarts once on another
// node, although the old pod still exists.
func testRestartNodeLost(t *testing.T, m *manager, ns string) {
	n := m.startFakeNodes(t, ns, 3)
	r := m.createGang(t, ns, scheduleOnFakeNodes(newTrainingWorkload(2), ns))
	r.waitForPhase(lifecycle.Running, 0)
	lost := n.loseNodeOfRank1(r)
	begin := time.Now()
	r.waitForPhase(lifecycle.Running, 1)
	t.Logf("running again %.1f s after that", time.Since(begin).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			nodes, _ := m.Client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
			for _, node := range nodes.Items {
				t.Logf("node %s (lost: %s): taints %v, conditions %+v",
					node.Name, lost.Spec.NodeName, node.Spec.Taints, node.Status.Conditions)
			}
		}
	})
	if p := r.getActivePod("worker-1"); p.Spec.NodeName == lost.Spec.NodeName {
		t.Errorf("rank 1 is on the lost node %s again", p.Spec.NodeName)
	}
	if p, err := m.Client.CoreV1().Pods(ns).Get(t.Context(), lost.Name, metav1.GetOptions{}); err != nil ||
		p.DeletionTimestamp == nil {
		t.Errorf("the pod on the lost node must still exist: %v", err)
	}
	service, err := m.Client.CoreV1().Services(ns).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil || service.Spec.Selector[gang.LabelAttempt] != "1" {
		t.Errorf("the Service must publish only attempt 1: selector %v, %v", service.Spec.Selector, err)
	}
	r.checkPhaseStable(3 * time.Second)
	n.forceDeletePod(lost)
	r.checkPhaseStable(3 * time.Second)
}

// testRestartStatefulSetNodeLost checks that a StatefulSet reports the pod that blocks the restart,
// waits for its deletion because the new pod has the same name, and then restarts.
func testRestartStatefulSetNodeLost(t *testing.T, m *manager, ns string) {
	n := m.startFakeNodes(t, ns, 3)
	r := m.createGang(t, ns, scheduleOnFakeNodes(gang.Workload{StatefulSet: newStatefulSet("train", 2)}, ns))
	r.waitForPhase(lifecycle.Running, 0)
	lost := n.loseNodeOfRank1(r)
	n.forceDeletePod(lost)
	r.waitForPhase(lifecycle.Running, 1)
	if p := r.getActivePod("worker-1"); p.UID == lost.UID || p.Spec.NodeName == lost.Spec.NodeName {
		t.Errorf("rank 1 is on the lost node %s", p.Spec.NodeName)
	}
	r.checkPhaseStable(2 * time.Second)
}

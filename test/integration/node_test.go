package integration

import (
	"context"
	"encoding/json"
	"errors"
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
)

// machines are nodes for the pods of one namespace, with a kubelet that the test plays: it runs pods, and lets them go
// when they are told to. The scheduler, the node lifecycle controller and its evictions are Kubernetes' own.
type machines struct {
	*manager
	t  *testing.T
	ns string

	mu   sync.Mutex
	dead map[string]bool
}

// onlyHere is the taint of such nodes, which keeps the pods of other tests away.
const onlyHere = "test.rollcall.training/only"

func (m *manager) machines(t *testing.T, ns string, count int) *machines {
	t.Helper()
	n := &machines{manager: m, t: t, ns: ns, dead: map[string]bool{}}
	for i := range count {
		name := fmt.Sprintf("%s-%d", ns, i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: onlyHere, Value: ns, Effect: corev1.TaintEffectNoSchedule}}}}
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
			n.look(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	beats := make(chan struct{})
	go func() { // by itself: a node that is late for 40 s is taken for dead
		defer close(beats)
		for ctx.Err() == nil {
			n.beat(ctx, count)
			time.Sleep(2 * time.Second)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; <-beats })
	return n
}

// beat reports the nodes: those that are dead as not ready, which a control plane does 40 s after a kubelet's last word.
func (n *machines) beat(ctx context.Context, count int) {
	for i := range count {
		name := fmt.Sprintf("%s-%d", n.ns, i)
		ready := corev1.ConditionTrue
		if n.isDead(name) {
			ready = corev1.ConditionFalse
		}
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
		patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}}})
		if err == nil { // what is refused is reported again
			_, _ = n.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
}

func (n *machines) isDead(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead[node]
}

// stops lets a node fall silent.
func (n *machines) stops(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead[node] = true
}

// look is what the kubelets do.
func (n *machines) look(ctx context.Context) {
	list, err := n.Client.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range list.Items {
		switch {
		case p.Spec.NodeName == "" || n.isDead(p.Spec.NodeName):
		case p.DeletionTimestamp != nil:
			_ = n.Client.CoreV1().Pods(n.ns).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
		case p.Status.StartTime == nil && p.Status.Phase == corev1.PodPending:
			n.starts(ctx, p)
		}
	}
}

// onMachines has a gang's pods run on such nodes, one on each, and leave a silent one after some seconds: a node that is late once is not lost.
func onMachines(w gang.Workload, ns string) gang.Workload {
	spec := &w.Template().Spec
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: onlyHere, Operator: corev1.TolerationOpEqual, Value: ns})
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](6)})
	}
	spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: "train"}}}}},
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{ns + "-0", ns + "-1", ns + "-2"}}}}}}},
	}
	return w
}

// loses has the node of rank 1 fall silent, and waits until the gang says which pod it waits for.
func (n *machines) loses(r *trainee) corev1.Pod {
	n.t.Helper()
	lost := r.pod("worker-1")
	n.stops(lost.Spec.NodeName)
	begin := time.Now()
	eventually(n.t, "the fall", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err != nil {
			return err
		}
		s := gang.StatusOf(all[0])
		if s.Attempt != 1 || s.Cause == nil || s.Cause.Rank != 1 || s.Cause.Reason != "DeletionByTaintManager" || s.Cause.Node != lost.Spec.NodeName {
			return fmt.Errorf("%s of attempt %d: %s", s.Phase, s.Attempt, s.Message)
		}
		return nil
	})
	n.t.Logf("fell %.1f s after its node", time.Since(begin).Seconds())
	eventually(n.t, "word of the pod", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err != nil {
			return err
		}
		if s := gang.StatusOf(all[0]); s.Reason != gang.ReasonPodStuck || !strings.Contains(s.Message, "Pod "+lost.Name) || !strings.Contains(s.Message, "node "+lost.Spec.NodeName) {
			return fmt.Errorf("%s: %s", s.Reason, s.Message)
		}
		return nil
	})
	n.event(n.t, n.ns, gang.ReasonPodStuck)
	n.t.Logf("said so %.1f s after its node", time.Since(begin).Seconds())
	return lost
}

// removes is what an administrator does who knows that the machine is off.
func (n *machines) removes(p corev1.Pod) {
	n.t.Helper()
	err := n.Client.CoreV1().Pods(n.ns).Delete(n.t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil {
		n.t.Fatal(err)
	}
}

// testRestartNodeLost: a Job whose node does not answer any more begins anew on another, once, though the pod there never goes.
func testRestartNodeLost(t *testing.T, m *manager, ns string) {
	n := m.machines(t, ns, 3)
	r := m.gangOf(t, ns, onMachines(training(2), ns))
	r.reaches(gang.Running, 0)
	lost := n.loses(r)
	begin := time.Now()
	r.within(2*time.Minute, gang.Running, 1)
	t.Logf("running again %.1f s after that", time.Since(begin).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			nodes, _ := m.Client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
			for _, node := range nodes.Items {
				t.Logf("node %s (lost: %s): taints %v, conditions %+v", node.Name, lost.Spec.NodeName, node.Spec.Taints, node.Status.Conditions)
			}
		}
	})
	if p := r.pod("worker-1"); p.Spec.NodeName == lost.Spec.NodeName {
		t.Errorf("rank 1 is on the lost node %s again", p.Spec.NodeName)
	}
	if p, err := m.Client.CoreV1().Pods(ns).Get(t.Context(), lost.Name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("the pod on the lost node was to hang: %v", err)
	}
	r.stays(3 * time.Second)
	n.removes(lost)
	r.stays(3 * time.Second)
}

// testRestartNodeLostSet: a StatefulSet waits for the pod, whose name the new one bears, says so, and begins anew when it is gone.
func testRestartNodeLostSet(t *testing.T, m *manager, ns string) {
	n := m.machines(t, ns, 3)
	r := m.gangOf(t, ns, onMachines(gang.Workload{StatefulSet: statefulSet("train", 2)}, ns))
	r.reaches(gang.Running, 0)
	lost := n.loses(r)
	n.removes(lost)
	r.reaches(gang.Running, 1)
	if p := r.pod("worker-1"); p.UID == lost.UID || p.Spec.NodeName == lost.Spec.NodeName {
		t.Errorf("rank 1 is on the lost node %s", p.Spec.NodeName)
	}
	r.stays(2 * time.Second)
}

// within is reaches for what takes longer than any other step.
func (r *trainee) within(d time.Duration, phase gang.Phase, attempt int32) {
	r.t.Helper()
	last := errors.New("not looked at")
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if last = r.are(phase, attempt)(r.t.Context()); last == nil {
			return
		}
	}
	r.t.Fatalf("waiting for %s: %v", phase, last)
}

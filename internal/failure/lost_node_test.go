package failure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestLostNode checks which pods show that their node is lost.
func TestLostNode(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*corev1.Pod)
		context failure.Context
		want    bool
	}{
		"the node lifecycle controller found the node lost": {change: podtest.OnLostNode(20), want: true},
		"a container is not ready": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Status.Conditions[0].Reason = "ContainersNotReady"
			p.Status.Conditions[1].Status = corev1.ConditionFalse
		}},
		"a kubelet gives a reason": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Status.Conditions[0].Reason = "ReadinessGatesNotReady"
		}},
		"the pod was not ready before": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Status.Conditions = p.Status.Conditions[:1]
		}},
		"the pod has readiness gates": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/checked"}}
		}},
		"the pod has failed": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Status.Phase = corev1.PodSucceeded
		}},
		"the node has returned": {change: func(p *corev1.Pod) {
			podtest.OnLostNode(20)(p)
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}},
		"the gang waits for lost nodes": {
			change: podtest.OnLostNode(20), context: failure.Context{IgnoresLostNodes: true},
		},
		"the node was lost in the attempt before": {
			change: podtest.OnLostNode(20), context: failure.Context{AttemptStartTime: podtest.At(20)},
		},
		"the node was lost in this attempt": {
			change: podtest.OnLostNode(21), context: failure.Context{AttemptStartTime: podtest.At(20)}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := failure.First([]corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, c.change)}, 0, c.context)
			if got := f != nil; got != c.want {
				t.Fatalf("the failure is %v, want one: %t", f, c.want)
			}
			if f == nil {
				return
			}
			isAtSignal := f.Time.Equal(podtest.At(20)) || f.Time.Equal(podtest.At(21))
			if f.Reason != failure.ReasonNodeLost || f.Rank != 1 || f.Node != "node-a" || !isAtSignal || !f.IsDisruption() {
				t.Errorf("the failure is %+v", f)
			}
		})
	}
}

// TestLostNodeAndPeers checks that a lost node comes before the failures of the peers that lose it, also while the gang
// restarts because of them, and after a failure that came earlier.
func TestLostNodeAndPeers(t *testing.T) {
	restarting := failure.Context{Attempt: 1, Terminating: true, TerminationStartTime: podtest.At(90)}
	for name, c := range map[string]struct {
		context     failure.Context
		failureTime int
		isDeleting  bool
		want        string
	}{
		"a peer fails after Kubernetes found the node lost": {failureTime: 101, want: failure.ReasonNodeLost},
		"a peer fails after the node was lost":              {failureTime: 50, want: failure.ReasonNodeLost},
		"a peer fails before the node was lost":             {failureTime: 40, want: "Error"},
		"the gang restarts because a peer failed first": {
			context: restarting, failureTime: 90, isDeleting: true, want: failure.ReasonNodeLost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLostNode := podtest.RankPod(0, podtest.OnLostNode(100))
			if c.isDeleting {
				podtest.Deleted(91)(&onLostNode)
			}
			pods := []corev1.Pod{onLostNode, podtest.RankPod(1, podtest.Terminated(1, c.failureTime, true))}
			if f := failure.First(pods, 0, c.context); f == nil || f.Reason != c.want {
				t.Errorf("the first failure is %v, want %s", f, c.want)
			}
		})
	}
}

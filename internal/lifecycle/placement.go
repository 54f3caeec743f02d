package lifecycle

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// Placement counts the pods of a gang that have a node, and those that wait for one. Pods that are gated, that are
// being deleted or that have finished do not count.
type Placement struct {
	Bound, Unbound int32
	// UnboundSince is when the oldest pod without a node was created, and BoundSince when the first pod got its node;
	// zero if there is none.
	UnboundSince, BoundSince time.Time
}

func (p *Placement) addPods(pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		switch {
		case pod.DeletionTimestamp != nil || IsPodTerminal(pod):
		case pod.Spec.NodeName != "":
			p.Bound++
			p.BoundSince = earliestTime(p.BoundSince, boundTime(pod))
		case len(pod.Spec.SchedulingGates) == 0:
			p.Unbound++
			p.UnboundSince = earliestTime(p.UnboundSince, pod.CreationTimestamp.Time)
		}
	}
}

// boundTime returns when a pod got its node. The cache of the controller keeps only the condition Ready of a ready pod.
func boundTime(pod *corev1.Pod) time.Time {
	for _, name := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		if c := failure.FindCondition(pod, name, corev1.ConditionTrue); c.Type != "" {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// NextDeadline returns when the next timeout of the attempt expires, which no event reports; zero if none runs.
func (s State) NextDeadline(policies gang.RestartRules, snapshot Snapshot) time.Time {
	return earliestTime(s.startDeadline(policies, snapshot.Members), s.scheduleDeadline(policies, snapshot),
		s.releaseDeadline(policies, snapshot))
}

// scheduleDeadline returns when the gang gives its nodes back because other ranks wait for theirs. It returns the zero
// value if nothing waits, if no node would be given back, and after all ranks were ready. Two gangs that hold the
// nodes of each other must not give them back at the same time, so the deadline is up to a quarter later, by the
// identity of the gang.
func (s State) scheduleDeadline(policies gang.RestartRules, snapshot Snapshot) time.Time {
	timeout, p := policies.ScheduleTimeout, snapshot.Placement
	if timeout <= 0 || policies.RestartPolicy != gang.RestartPolicyGang || !mayFail(policies, snapshot.Members) ||
		!s.isStarting() || snapshot.Members.allReadyOrSucceeded() || p.Bound == 0 || p.Unbound == 0 {
		return time.Time{}
	}
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, snapshot.Members.uids(), s.Attempt)
	heldSince := p.BoundSince
	if heldSince.Before(p.UnboundSince) {
		heldSince = p.UnboundSince
	}
	return heldSince.Add(gang.ExtendTimeout(timeout, h.Sum32()))
}

// isScheduleTimeoutExceeded reports whether some ranks held nodes for the timeout, while others had none.
func (s State) isScheduleTimeoutExceeded(policies gang.RestartRules, snapshot Snapshot) bool {
	return snapshot.isPast(s.scheduleDeadline(policies, snapshot))
}

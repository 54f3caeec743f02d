package failure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestIsDisruption checks which failures of pods the infrastructure or a user caused.
func TestIsDisruption(t *testing.T) {
	evicted := func(reason, message string, conditions ...corev1.PodCondition) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message, Conditions: conditions}
		}
	}
	byKubelet := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
	}
	forOwnUse := byKubelet
	forOwnUse.Message = ownUse
	byScheduler := byKubelet
	byScheduler.Reason = corev1.PodReasonPreemptionByScheduler
	byOther := byKubelet
	byOther.Reason = "SpotInterruption"
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"somebody deleted the pod":        {change: podtest.Deleted(5), want: true},
		"the scheduler preempted the pod": {change: evicted("", "", byScheduler), want: true},
		"the node shuts down":             {change: evicted("Terminated", "node shutdown", byKubelet), want: true},
		"the node is low on a resource": {
			change: evicted("Evicted", "The node was low on resource: memory.", byKubelet), want: true,
		},
		"another controller ended the pod": {change: evicted("", "", byOther), want: true},
		"the node was lost":                {change: evicted("NodeLost", ""), want: true},
		"the container exited":             {change: podtest.Terminated(1, 5, false)},
		"the pod exceeded its local disk": {
			change: evicted("Evicted", "Usage of EmptyDir volume exceeds the limit."),
		},
		"a node without its device rejects the pod": {change: evicted("UnexpectedAdmissionError", ""), want: true},
		"YuniKorn has only some nodes for too long": {change: evicted("ResourceReservationTimeout", ""), want: true},
		"a full node rejects the pod":               {change: evicted("OutOfcpu", ""), want: true},
		"a node without its label rejects the pod":  {change: evicted("NodeAffinity", ""), want: true},
		"a node rejects the sysctls of the pod":     {change: evicted("SysctlForbidden", "")},
		"the pod failed without a reason":           {change: evicted("", "")},
		"the pod exceeded its own request":          {change: evicted("Evicted", ownUse, byKubelet)},
		"the pod exceeded its own request, and exited with code 0": {change: func(p *corev1.Pod) {
			podtest.Terminated(0, 5, false)(p)
			p.Status.Conditions = []corev1.PodCondition{forOwnUse}
		}},
	} {
		f := failure.First([]corev1.Pod{podtest.RankPod(0, c.change)}, 0, failure.Context{})
		if f == nil || f.IsDisruption() != c.want {
			t.Errorf("%s: disruption %v after %v, want %v", name, f.IsDisruption(), f, c.want)
		}
	}
	for reason, want := range map[string]bool{
		failure.ReasonRankLost: true, failure.ReasonMemberRecreated: true, failure.ReasonPodDeleted: true,
		failure.ReasonMemberDeleted: true, failure.ReasonMemberSuspended: true, failure.ReasonUnobserved: true,
		failure.ReasonStartTimeout: false,
	} {
		if f := (&failure.Failure{Rank: -1, Reason: reason}); f.IsDisruption() != want {
			t.Errorf("%s: disruption %v, want %v", reason, !want, want)
		}
	}
	var none *failure.Failure
	if none.IsDisruption() {
		t.Error("no failure is a disruption")
	}
}

// ownUse is the message of the kubelet about a pod that used more memory than it requested.
const ownUse = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92Mi. " +
	"Container trainer was using 9Gi, request is 1Gi, has larger consumption of memory. "

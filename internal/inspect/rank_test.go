package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/lifecycle"
)

var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func timeAfter(d time.Duration) metav1.Time { return metav1.NewTime(testTime.Add(d)) }

func terminatedState(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:   code,
		Reason:     reason,
		FinishedAt: timeAfter(0),
	}}
}

func waitingState(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

var (
	runningState    = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	readyConditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	deletionTime    = timeAfter(30 * time.Second)
)

func TestNewRank(t *testing.T) {
	trainer := func(state, lastTermination corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "trainer", State: state, LastTerminationState: lastTermination}}
	}
	notTerminated := corev1.ContainerState{}
	for name, c := range map[string]struct {
		meta       metav1.ObjectMeta
		spec       corev1.PodSpec
		status     corev1.PodStatus
		wantState  lifecycle.RankState
		wantReason string
	}{
		"ready pod is ready": {
			status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        readyConditions,
				ContainerStatuses: trainer(runningState, notTerminated),
			},
			wantState: lifecycle.RankReady,
		},
		"ready pod is ready after its container restarted": {
			status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        readyConditions,
				ContainerStatuses: trainer(runningState, terminatedState(1, "Error")),
			},
			wantState: lifecycle.RankReady,
		},
		"unschedulable pod has the message of the scheduler": {
			status: corev1.PodStatus{
				Phase: corev1.PodPending,
				Conditions: []corev1.PodCondition{{
					Type:    corev1.PodScheduled,
					Status:  corev1.ConditionFalse,
					Reason:  "Unschedulable",
					Message: "0/3 nodes are available",
				}},
			},
			wantState:  lifecycle.RankPending,
			wantReason: "Unschedulable: 0/3 nodes are available",
		},
		"container that waits for its image is pending": {
			status: corev1.PodStatus{
				Phase:             corev1.PodPending,
				ContainerStatuses: trainer(waitingState("ImagePullBackOff", "no such image"), notTerminated),
			},
			wantState:  lifecycle.RankPending,
			wantReason: "container trainer: ImagePullBackOff: no such image",
		},
		"launcher whose init container waits for the workers is pending": {
			status: corev1.PodStatus{
				Phase:                 corev1.PodPending,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "rollcall-wait", State: runningState}},
				ContainerStatuses:     trainer(waitingState("PodInitializing", ""), notTerminated),
			},
			wantState:  lifecycle.RankPending,
			wantReason: "init container rollcall-wait is running",
		},
		"running container with a failed readiness probe is pending": {
			status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				ContainerStatuses: trainer(runningState, notTerminated),
			},
			wantState:  lifecycle.RankPending,
			wantReason: "container trainer is running but not ready",
		},
		"pod with the scheduling gate of a queue is pending": {
			spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/topology"}}},
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type:   corev1.PodScheduled,
				Status: corev1.ConditionFalse,
				Reason: "SchedulingGated",
			}}},
			wantState:  lifecycle.RankPending,
			wantReason: "blocked by the scheduling gate kueue.x-k8s.io/topology",
		},
		"failed pod has the exit code of its container": {
			status: corev1.PodStatus{
				Phase:             corev1.PodFailed,
				ContainerStatuses: trainer(terminatedState(137, "OOMKilled"), notTerminated),
			},
			wantState:  lifecycle.RankFailed,
			wantReason: "OOMKilled, container trainer exited with code 137",
		},
		"evicted pod without container statuses has the message of the kubelet": {
			status: corev1.PodStatus{
				Phase:   corev1.PodFailed,
				Reason:  "Evicted",
				Message: "the node was low on memory",
			},
			wantState:  lifecycle.RankFailed,
			wantReason: "Evicted: the node was low on memory",
		},
		"running pod with a container in a crash loop is failed": {
			status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				ContainerStatuses: trainer(waitingState("CrashLoopBackOff", ""), terminatedState(1, "Error")),
			},
			wantState:  lifecycle.RankFailed,
			wantReason: "Error, container trainer exited with code 1",
		},
		"succeeded pod is succeeded": {
			status: corev1.PodStatus{
				Phase:             corev1.PodSucceeded,
				ContainerStatuses: trainer(terminatedState(0, "Completed"), notTerminated),
			},
			wantState: lifecycle.RankSucceeded,
		},
		"succeeded pod stays succeeded while it is deleted": {
			meta:      metav1.ObjectMeta{DeletionTimestamp: &deletionTime},
			status:    corev1.PodStatus{Phase: corev1.PodSucceeded},
			wantState: lifecycle.RankSucceeded,
		},
		"deleted pod on a failed node is terminating although its conditions are ready": {
			meta: metav1.ObjectMeta{DeletionTimestamp: &deletionTime},
			status: corev1.PodStatus{
				Phase:      corev1.PodRunning,
				Conditions: readyConditions,
			},
			wantState:  lifecycle.RankTerminating,
			wantReason: "deletion due by 12:00:30 UTC",
		},
		"disrupted pod has the reason of its disruption": {
			meta: metav1.ObjectMeta{DeletionTimestamp: &deletionTime},
			status: corev1.PodStatus{
				Phase: corev1.PodRunning,
				Conditions: []corev1.PodCondition{{
					Type:   corev1.DisruptionTarget,
					Status: corev1.ConditionTrue,
					Reason: "DeletionByTaintManager",
				}},
			},
			wantState:  lifecycle.RankTerminating,
			wantReason: "DeletionByTaintManager: deletion due by 12:00:30 UTC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newRank(3, Member{Name: "train"}, &corev1.Pod{ObjectMeta: c.meta, Spec: c.spec, Status: c.status})
			want := []string{string(c.wantState), c.wantReason}
			if diff := cmp.Diff(want, []string{string(got.State), got.Reason}); diff != "" {
				t.Errorf("state and reason (-want +got):\n%s", diff)
			}
		})
	}
	if got := newRank(0, Member{}, nil); got.State != lifecycle.RankMissing {
		t.Errorf("a rank without a pod is %q", got.State)
	}
}

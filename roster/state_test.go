package roster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

func terminated(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: at(0)}}
}

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

var (
	runs  = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	isUp  = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	going = at(30 * time.Second)
)

func TestRankOf(t *testing.T) {
	trainer := func(state, last corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "trainer", State: state, LastTerminationState: last}}
	}
	none := corev1.ContainerState{}
	for name, c := range map[string]struct {
		why    string
		meta   metav1.ObjectMeta
		spec   corev1.PodSpec
		status corev1.PodStatus
		state  State
		reason string
	}{
		"ready": {why: "the pod's own word", state: Ready,
			status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: isUp, ContainerStatuses: trainer(runs, none)}},
		"ready again": {why: "a rank that was started anew within its pod is ready, whatever happened before", state: Ready,
			status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: isUp, ContainerStatuses: trainer(runs, terminated(1, "Error"))}},
		"no node": {why: "the scheduler's message says what is lacking", state: Waiting, reason: "Unschedulable: 0/3 nodes are available",
			status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}},
		"no image": {why: "the commonest reason of all", state: Waiting, reason: "container trainer: ImagePullBackOff: no such image",
			status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: trainer(waitingFor("ImagePullBackOff", "no such image"), none)}},
		"init container runs": {why: "a launcher's pod waits there for its hosts", state: Waiting, reason: "init container rollcall-wait runs",
			status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "rollcall-wait", State: runs}},
				ContainerStatuses: trainer(waitingFor("PodInitializing", ""), none)}},
		"probe": {why: "runs, and its readiness probe fails", state: Waiting, reason: "container trainer runs and is not ready",
			status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: trainer(runs, none)}},
		"gated": {why: "a queue holds pods by gates", state: Waiting, reason: "held by the scheduling gate kueue.x-k8s.io/topology",
			spec:   corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/topology"}}},
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated"}}}},
		"failed": {why: "how its container ended", state: Failed, reason: "OOMKilled, container trainer ended with exit code 137",
			status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: trainer(terminated(137, "OOMKilled"), none)}},
		"evicted": {why: "no container tells of it", state: Failed, reason: "Evicted: the node was low on memory",
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}},
		"crash loop": {why: "the pod is Running, and the rank is not", state: Failed, reason: "Error, container trainer ended with exit code 1",
			status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: trainer(waitingFor("CrashLoopBackOff", ""), terminated(1, "Error"))}},
		"done": {why: "a Job's pod that ended well", state: Done,
			status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: trainer(terminated(0, "Completed"), none)}},
		"done and going": {why: "cleaned away, which is no trouble", state: Done, meta: metav1.ObjectMeta{DeletionTimestamp: &going},
			status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		"stopping": {why: "still ready by its conditions, as on a node that is dead", state: Stopping, reason: "to be gone by 12:00:30 UTC",
			meta: metav1.ObjectMeta{DeletionTimestamp: &going}, status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: isUp}},
		"taken away": {why: "who took it says why", state: Stopping, reason: "DeletionByTaintManager: to be gone by 12:00:30 UTC",
			meta: metav1.ObjectMeta{DeletionTimestamp: &going}, status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rankOf(3, Member{Name: "train"}, &corev1.Pod{ObjectMeta: c.meta, Spec: c.spec, Status: c.status})
			if diff := cmp.Diff([]string{string(c.state), c.reason}, []string{string(got.State), got.Reason}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
	if got := rankOf(0, Member{}, nil); got.State != Absent {
		t.Errorf("a rank without a pod is %q", got.State)
	}
}

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// history is what was observed of one life. It checks the invariants that hold at all times.
type history struct {
	pods       map[types.UID]corev1.Pod
	statuses   map[types.UID]lifecycle.Status
	workloads  map[types.UID]gang.Workload
	violations []string
	// messages are the statuses in the order in which they appeared.
	messages []string
	// fault is the fault of a node that all histories share.
	fault *nodeFault
	// faults contains the numbers of the faults whose node had a pod that had not terminated.
	faults map[int]bool
	// lost contains the pods that were on a node while it was lost.
	lost map[types.UID]bool
}

// nodeFault is the fault of a node that happens now.
type nodeFault struct {
	// number counts the faults from 1.
	number int
	// node is the node; empty if no node has a fault.
	node string
	// isLost is true if the kubelet of the node does not report.
	isLost bool
}

func newHistory(fault *nodeFault) *history {
	return &history{
		pods:      map[types.UID]corev1.Pod{},
		statuses:  map[types.UID]lifecycle.Status{},
		workloads: map[types.UID]gang.Workload{},
		fault:     fault, faults: map[int]bool{}, lost: map[types.UID]bool{},
	}
}

// observePod records a new state of a pod.
func (h *history) observePod(pod corev1.Pod) {
	h.pods[pod.UID] = pod
	h.applyFault()
	h.checkAttempts()
}

func (h *history) forgetPod(uid types.UID) { delete(h.pods, uid) }

// replacePods records all pods after a gap in the observation.
func (h *history) replacePods(pods []corev1.Pod) {
	clear(h.pods)
	for _, pod := range pods {
		h.pods[pod.UID] = pod
	}
	h.applyFault()
	h.checkAttempts()
}

// applyFault records which pods the current fault hits.
func (h *history) applyFault() {
	for uid, pod := range h.pods {
		if h.fault.node == "" || pod.Spec.NodeName != h.fault.node || hasTerminated(pod) {
			continue
		}
		h.faults[h.fault.number] = true
		h.lost[uid] = h.lost[uid] || h.fault.isLost
	}
}

// checkAttempts checks that all pods that have not terminated belong to one attempt.
func (h *history) checkAttempts() {
	attempts := map[int32]string{}
	for _, pod := range h.pods {
		isIgnored := pod.DeletionTimestamp != nil && h.lost[pod.UID]
		if attempt, ok := gang.PodAttempt(&pod); ok && isLive(pod) && !isIgnored {
			attempts[attempt] = pod.Name
		}
	}
	if len(attempts) > 1 {
		var names []string
		for _, attempt := range slices.Sorted(maps.Keys(attempts)) {
			names = append(names, fmt.Sprintf("%s of attempt %d", attempts[attempt], attempt))
		}
		h.addViolation("pods of several attempts at the same time: %s", names)
	}
}

// overduePeriod is how long after the grace period of a deleted pod the next attempt no longer waits for
// the pod, less a second for the resolution of timestamps (docs/concepts/lifecycle.md, unreachable nodes).
const overduePeriod = time.Minute - time.Second

// isLive reports whether the containers of a pod may run and the next attempt must wait for the pod. A
// deleted pod with a grace period of 0 has no containers: only finalizers keep the object. The node of a
// pod whose termination is overdue does not respond.
func isLive(pod corev1.Pod) bool {
	if hasTerminated(pod) {
		return false
	}
	if pod.DeletionTimestamp == nil {
		return true
	}
	isConfirmed := ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0
	return !isConfirmed && time.Since(pod.DeletionTimestamp.Time) < overduePeriod
}

func hasTerminated(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// hasExited reports whether the program of a pod has exited, or the pod is gone.
func (h *history) hasExited(uid types.UID) bool {
	pod, exists := h.pods[uid]
	restarted := func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }
	return !exists || hasTerminated(pod) || slices.ContainsFunc(pod.Status.ContainerStatuses, restarted)
}

// observeWorkload records a new state of a workload. complete is false after a gap in the observation,
// in which the gang may have restarted several times.
func (h *history) observeWorkload(w gang.Workload, complete bool) {
	uid, now := w.Meta().UID, lifecycle.ReadStatus(w)
	before, known := h.statuses[uid]
	step := now.Restarts + now.Disruptions - before.Restarts - before.Disruptions
	switch {
	case known && step < 0:
		h.addViolation("%s went from %d restarts to %d", w.Meta().Name, before.Restarts, now.Restarts)
	case known && complete && step > 1:
		h.addViolation("%s counted %d restarts at once", w.Meta().Name, step)
	case known && before.Phase.Terminal() && now.Phase != before.Phase:
		h.addViolation("%s went from %s to %s", w.Meta().Name, before.Phase, now.Phase)
	}
	if before.Message != now.Message {
		h.messages = append(h.messages, fmt.Sprintf("%s %s is %s after %d restarts and %d disruptions: %s",
			time.Now().Format(time.TimeOnly), w.Meta().Name, now.Phase, now.Restarts, now.Disruptions, now.Message))
	}
	h.statuses[uid], h.workloads[uid] = now, w
}

func (h *history) addViolation(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(h.violations, text) {
		h.violations = append(h.violations, text)
	}
}

// podsByRank returns the pods of the ranks that run in an attempt and are not being deleted.
func (h *history) podsByRank(attempt int32) map[int32]corev1.Pod {
	out := map[int32]corev1.Pod{}
	for _, pod := range h.pods {
		podAttempt, hasAttempt := gang.PodAttempt(&pod)
		if pod.DeletionTimestamp == nil && isLive(pod) && (!hasAttempt || podAttempt == attempt) {
			out[h.rankOf(pod)] = pod
		}
	}
	return out
}

// rankOf returns the rank of a pod. In a gang of two Jobs, the ranks of the workers follow that of the
// master.
func (h *history) rankOf(pod corev1.Pod) int32 {
	rank := gang.PodIndex(&pod)
	if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Name == workerName {
		rank++
	}
	return rank
}

func TestHistory(t *testing.T) {
	newPod := func(uid types.UID, attempt string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid, Labels: map[string]string{gang.LabelAttempt: attempt}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	newDeletedPod := func(uid types.UID, attempt string, since time.Duration) corev1.Pod {
		pod := newPod(uid, attempt, corev1.PodRunning)
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now().Add(-since)))
		pod.DeletionGracePeriodSeconds = ptr.To[int64](1)
		return pod
	}
	newWorkload := func(phase lifecycle.Phase, restarts int32) gang.Workload {
		text, err := lifecycle.Status{State: lifecycle.State{Phase: phase, Restarts: restarts}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return gang.Workload{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: "train", UID: "train", Annotations: map[string]string{gang.AnnotationStatus: text},
		}}}
	}
	for name, c := range map[string]struct {
		observe        func(*history)
		wantViolations int
	}{
		"a pod of the next attempt starts while another one runs": {
			observe: func(h *history) {
				h.observePod(newPod("a", "0", corev1.PodRunning))
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
			wantViolations: 1,
		},
		"a pod of the next attempt starts after the others are gone": {
			observe: func(h *history) {
				h.observePod(newPod("a", "0", corev1.PodRunning))
				h.observePod(newPod("b", "0", corev1.PodSucceeded))
				h.forgetPod("a")
				h.observePod(newPod("c", "1", corev1.PodPending))
			},
		},
		"a pod of the next attempt starts while another one terminates": {
			observe: func(h *history) {
				h.observePod(newDeletedPod("a", "0", 30*time.Second))
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
			wantViolations: 1,
		},
		"the termination of a pod on an unreachable node is overdue": {
			observe: func(h *history) {
				h.observePod(newDeletedPod("a", "0", 61*time.Second))
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
		},
		"a pod of the next attempt starts while a deleted pod is on a lost node": {
			observe: func(h *history) {
				lost := newDeletedPod("a", "0", time.Second)
				lost.Spec.NodeName = "lost"
				*h.fault = nodeFault{number: 1, node: "lost", isLost: true}
				h.observePod(lost)
				*h.fault = nodeFault{number: 1}
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
		},
		"a pod of the next attempt starts while another one runs on a lost node": {
			observe: func(h *history) {
				lost := newPod("a", "0", corev1.PodRunning)
				lost.Spec.NodeName = "lost"
				*h.fault = nodeFault{number: 1, node: "lost", isLost: true}
				h.observePod(lost)
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
			wantViolations: 1,
		},
		"a pod of the next attempt starts while a deleted pod is on a drained node": {
			observe: func(h *history) {
				drained := newDeletedPod("a", "0", time.Second)
				drained.Spec.NodeName = "drained"
				*h.fault = nodeFault{number: 1, node: "drained"}
				h.observePod(drained)
				h.observePod(newPod("b", "1", corev1.PodPending))
			},
			wantViolations: 1,
		},
		"a gap hides the end of the old pods": {
			observe: func(h *history) {
				h.observePod(newPod("a", "0", corev1.PodRunning))
				h.replacePods([]corev1.Pod{newPod("b", "1", corev1.PodRunning)})
			},
		},
		"one incident costs two restarts": {
			observe: func(h *history) {
				h.observeWorkload(newWorkload(lifecycle.Running, 0), true)
				h.observeWorkload(newWorkload(lifecycle.Restarting, 2), true)
			},
			wantViolations: 1,
		},
		"a new manager forgets a restart": {
			observe: func(h *history) {
				h.observeWorkload(newWorkload(lifecycle.Running, 1), true)
				h.observeWorkload(newWorkload(lifecycle.Pending, 0), true)
			},
			wantViolations: 1,
		},
		"a gang that has failed runs again": {
			observe: func(h *history) {
				h.observeWorkload(newWorkload(lifecycle.Failed, 1), true)
				h.observeWorkload(newWorkload(lifecycle.Running, 1), true)
			},
			wantViolations: 1,
		},
		"a gang restarts twice in a gap": {
			observe: func(h *history) {
				h.observeWorkload(newWorkload(lifecycle.Running, 0), true)
				h.observeWorkload(newWorkload(lifecycle.Running, 2), false)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(&nodeFault{})
			c.observe(h)
			if len(h.violations) != c.wantViolations {
				t.Errorf("violations %q, want %d", h.violations, c.wantViolations)
			}
		})
	}
}

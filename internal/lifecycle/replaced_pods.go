package lifecycle

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// If a pod is deleted and replaced between two passes, for example while no manager runs, the gang lost a rank. A Job
// counts its failed pods, except for those that its podFailurePolicy ignores. The time of the new pod shows these. A
// StatefulSet counts none, and the name of a replaced pod is that of its rank. Only the UID of the pod shows that.

// isReplacement reports whether a pod was created after all ranks were ready. readyTime is zero if it is not known.
func isReplacement(pod *corev1.Pod, readyTime time.Time) bool {
	return !readyTime.IsZero() && pod.CreationTimestamp.After(readyTime.Add(clockTolerance))
}

// countReplacedPods returns the number of ranks of a Job with a pod that has not failed and that replaced another, of
// which no trace exists; 0 for a StatefulSet. The pods of an elastic gang come and go. A Job that was started after all
// ranks were ready was recreated or resumed, which is another failure.
func (w WorkloadEvidence) countReplacedPods(c failure.Context, readyTime time.Time) int32 {
	if w.Job == nil || w.Gang.Elastic != nil || w.Job.Status.StartTime == nil || w.Job.Status.StartTime.After(readyTime) {
		return 0
	}
	podsOf := map[int32]int{}
	for i := range w.Pods {
		if !c.IsFromEarlierAttempt(&w.Pods[i]) {
			podsOf[gang.PodIndex(&w.Pods[i])]++
		}
	}
	return countPods(w.Pods, func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && isReplacement(pod, readyTime) &&
			podsOf[gang.PodIndex(pod)] == 1
	})
}

// IdentifyPods returns a text that identifies a number of pods by their UIDs. It starts with the number,
// and depends on the order of the pods.
func IdentifyPods(uids []types.UID) string {
	hash := fnv.New64a()
	for _, uid := range uids {
		_, _ = fmt.Fprintln(hash, uid) // a hash never fails
	}
	return fmt.Sprintf("%d-%016x", len(uids), hash.Sum64())
}

// isRankReplaced reports whether a StatefulSet replaced a pod since all ranks of the attempt were ready.
// A different number of pods is a resize.
func (s State) isRankReplaced(snapshot Snapshot) bool {
	before, after := s.StatefulSetPods, snapshot.StatefulSetPods
	if !s.wereAllReady() || snapshot.RollingOut || before == "" || after == "" || before == after {
		return false
	}
	sizeBefore, _, _ := strings.Cut(before, "-")
	sizeAfter, _, _ := strings.Cut(after, "-")
	return sizeBefore == sizeAfter
}

// isRankGone reports whether ranks failed after the pod of a StatefulSet disappeared that they had found.
func (s State) isRankGone(snapshot Snapshot) bool {
	return snapshot.FirstFailure != nil && snapshot.IsRankWithoutPod && s.wereAllReady() && !snapshot.RollingOut
}

// recordStatefulSetPods records the pods of a gang that runs. A rollout or a resize replaces pods on
// behalf of the user, and the pods are recorded again after it.
func (s State) recordStatefulSetPods(snapshot Snapshot) State {
	switch {
	case snapshot.RollingOut || !s.wereAllReady():
		s.StatefulSetPods = ""
	case s.Phase == Running && snapshot.StatefulSetPods != "":
		s.StatefulSetPods = snapshot.StatefulSetPods
	}
	return s
}

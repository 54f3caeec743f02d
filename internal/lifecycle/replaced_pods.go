package lifecycle

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// If a pod is deleted and replaced between two passes, for example while no manager runs, the gang lost a rank. A Job
// counts its failed pods, except for those that its podFailurePolicy ignores. The time of the new pod shows these. A
// StatefulSet counts none, and the name of a replaced pod is that of its rank. Only the UID of the pod shows that.

// readyTime returns when all ranks of the current attempt were ready first; zero if they were not. It is later if an
// earlier build wrote the status.
func (s State) readyTime() time.Time {
	if !s.wereAllReady() {
		return time.Time{}
	}
	return cmp.Or(s.ReadyTime, s.LastTransitionTime)
}

// areJobsChanged reports whether Jobs were started or resized after all ranks were ready first. Their pods are newer,
// and replaced no other pods.
func (s State) areJobsChanged(snapshot Snapshot) bool {
	start, _ := snapshot.Members.latestStart(time.Time{})
	isResized := !s.ReadyTime.IsZero() && s.JobRanks != snapshot.JobRanks
	return isResized || start.After(s.readyTime().Add(clockTolerance))
}

// replacementTime returns the time since which new pods of Jobs replace others; zero if it is not known.
func (s State) replacementTime(snapshot Snapshot) time.Time {
	if s.areJobsChanged(snapshot) {
		return time.Time{}
	}
	return s.readyTime()
}

// recordReadyTime records the time at which all ranks are ready first, or again after Jobs have changed. The clock of
// the Job controller can be ahead. The time ends with the attempt.
func (s State) recordReadyTime(last Phase, snapshot Snapshot) State {
	if !s.Phase.Active() {
		s.ReadyTime, s.JobRanks = time.Time{}, 0
	}
	isNew := s.ReadyTime.IsZero() && last != Running
	isChanged := !s.ReadyTime.IsZero() && s.areJobsChanged(snapshot)
	if start, isStarted := snapshot.Members.latestStart(snapshot.statusTime()); isStarted &&
		s.Phase == Running && (isNew || isChanged) {
		s.ReadyTime, s.JobRanks = start, snapshot.JobRanks
	}
	return s
}

// isReplacement reports whether a pod was created after all ranks were ready. readyTime is zero if it is not known.
func isReplacement(pod *corev1.Pod, readyTime time.Time) bool {
	return !readyTime.IsZero() && pod.CreationTimestamp.After(readyTime.Add(clockTolerance))
}

// countReplacedPods returns the number of ranks of a Job whose pods all replaced others, so that no trace exists of the
// first pod; 0 for a StatefulSet. The pods of an elastic gang come and go.
func (w WorkloadEvidence) countReplacedPods(c failure.Context, readyTime time.Time) int32 {
	if w.Job == nil || w.Gang.Elastic != nil || w.Job.Status.StartTime == nil {
		return 0
	}
	replaced, original := sets.Set[int32]{}, sets.Set[int32]{}
	for i := range w.Pods {
		pod, index := &w.Pods[i], gang.PodIndex(&w.Pods[i])
		switch {
		case c.IsFromEarlierAttempt(pod):
		case !isReplacement(pod, readyTime):
			original.Insert(index)
		case pod.DeletionTimestamp == nil:
			replaced.Insert(index)
		}
	}
	return int32(replaced.Difference(original).Len())
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

package lifecycle

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A Job counts its failed pods. A StatefulSet does not, and the name of a replaced pod is that of its
// rank. If a pod is deleted and replaced between two passes, for example while no manager runs, nothing
// but the UID of the pod shows that the gang lost a rank.

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

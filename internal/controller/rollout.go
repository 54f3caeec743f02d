package controller

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// excludePodsOfRollout excludes the pods of a StatefulSet that a rollout or a resize deletes. A pod that
// is evicted is not excluded: with the strategy OnDelete or a partition, a rollout can last forever. If the
// set was resized and is being injected again, it excludes all pods: the rollout follows within seconds, and
// a restart in between would restore the previous size. A resize that was rejected, or that takes longer,
// excludes only the pods beyond the previous size.
func excludePodsOfRollout(m member, pods []corev1.Pod) []corev1.Pod {
	size, ok := injectedReplicas(m.Workload)
	if !ok {
		return pods
	}
	if m.isResizing() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		isReplaced := pod.DeletionTimestamp != nil && !gang.IsDisrupted(&pod) && hasOldRevision(m.Workload)
		return gang.PodIndex(&pod) >= size || isReplaced
	})
}

// injectedReplicas returns the size with which the ranks of a StatefulSet are configured; false if it is
// not known.
func injectedReplicas(w gang.Workload) (int32, bool) {
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return 0, false
	}
	return record.Replicas, true
}

// isResized reports whether a StatefulSet was resized and not injected again.
func isResized(w gang.Workload) bool {
	injected, ok := injectedReplicas(w)
	requested := ptr.Deref(w.StatefulSet.Spec.Replicas, 0)
	return ok && requested > 0 && requested != injected // a size of 0 suspends the set
}

// hasOldRevision reports whether pods of a StatefulSet have another template than its spec, or whether
// its controller has not observed the spec.
func hasOldRevision(w gang.Workload) bool {
	status := w.StatefulSet.Status
	return status.ObservedGeneration < w.StatefulSet.Generation || status.CurrentRevision != status.UpdateRevision
}

// isResizing reports whether a StatefulSet was resized, and its injection has neither ended nor is overdue.
func (m member) isResizing() bool { return isResized(m.Workload) && !m.resizeOverdue }

// isRollingOut reports whether a StatefulSet replaces its pods because its user changed it; false for a
// Job.
func (m member) isRollingOut() bool {
	return m.StatefulSet != nil && (m.isResizing() || hasOldRevision(m.Workload))
}

// listRankUIDs returns the UIDs of the pods of a StatefulSet in the order of their ranks. complete is false
// if a rank has no pod. A Job has no UIDs and is complete. Pods beyond the size with which the ranks are configured
// have no rank.
func listRankUIDs(w gang.Workload, pods []corev1.Pod) (uids []types.UID, complete bool) {
	if w.StatefulSet == nil {
		return nil, true
	}
	size := configuredRanks(w)
	if size > len(pods) {
		return nil, false // users can request any size
	}
	uids = make([]types.UID, size)
	for i := range pods {
		if index := int(gang.PodIndex(&pods[i])); index >= 0 && index < size {
			uids[index] = pods[i].UID
		}
	}
	return uids, !slices.Contains(uids, "")
}

// configuredRanks returns the number of ranks for which the pods of a StatefulSet are configured.
func configuredRanks(w gang.Workload) int {
	size := int(w.Ranks())
	if injected, _ := injectedReplicas(w); injected > 0 { // users can edit the record
		size = min(size, int(injected))
	}
	return size
}

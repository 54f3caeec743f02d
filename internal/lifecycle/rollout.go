package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// excludeReplacedPods returns the pods whose failure counts. It excludes pods that a rollout of a
// StatefulSet or a resize deletes, because the user requested their deletion. A pod that is evicted is not
// excluded: with the strategy OnDelete or a partition, a rollout can last forever. If a StatefulSet was resized
// and is being injected again, all pods are excluded: the rollout follows within seconds, and a restart in
// between would restore the previous size. A resize that was rejected, or that takes longer, excludes only the
// pods beyond the previous size.
func (w WorkloadEvidence) excludeReplacedPods() []corev1.Pod {
	size, isSet := w.Ranks(), w.StatefulSet != nil
	switch {
	case isSet && w.InjectedReplicas == nil:
		return w.Pods
	case isSet && w.isResizing():
		return nil
	case isSet:
		size = *w.InjectedReplicas
	}
	isReplaced := func(pod corev1.Pod) bool {
		isRolledOut := isSet && pod.DeletionTimestamp != nil && !failure.IsDisrupted(&pod) && hasOldRevision(w.Workload)
		return gang.PodIndex(&pod) >= size || isRolledOut
	}
	if !slices.ContainsFunc(w.Pods, isReplaced) {
		return w.Pods // avoids a copy in the usual case
	}
	return slices.DeleteFunc(slices.Clone(w.Pods), isReplaced)
}

// isResizing reports whether a StatefulSet was resized, and its injection has neither ended nor is overdue. A size of
// 0 suspends the set.
func (w WorkloadEvidence) isResizing() bool {
	requested := ptr.Deref(w.StatefulSet.Spec.Replicas, 0)
	isResized := w.InjectedReplicas != nil && requested > 0 && requested != *w.InjectedReplicas
	return isResized && !w.ResizeOverdue
}

// hasOldRevision reports whether pods of a StatefulSet have another template than its spec, or whether
// its controller has not observed the spec.
func hasOldRevision(w gang.Workload) bool {
	status := w.StatefulSet.Status
	return status.ObservedGeneration < w.StatefulSet.Generation || status.CurrentRevision != status.UpdateRevision
}

// isRollingOut reports whether a StatefulSet replaces its pods because its user changed it; false for a
// Job.
func (w WorkloadEvidence) isRollingOut() bool {
	return w.StatefulSet != nil && (w.isResizing() || hasOldRevision(w.Workload))
}

// listRankUIDs returns the UIDs of the pods of a StatefulSet in the order of their ranks. complete is false
// if a rank has no pod that has not ended: a StatefulSet replaces a pod that has. A Job has no UIDs and is complete.
// Pods beyond the size with which the ranks are configured have no rank.
func (w WorkloadEvidence) listRankUIDs() (uids []types.UID, complete bool) {
	if w.StatefulSet == nil {
		return nil, true
	}
	size := w.configuredRanks()
	if size > len(w.Pods) {
		return nil, false // users can request any size
	}
	uids = make([]types.UID, size)
	for i := range w.Pods {
		index, phase := int(gang.PodIndex(&w.Pods[i])), w.Pods[i].Status.Phase
		hasEnded := phase == corev1.PodFailed || phase == corev1.PodSucceeded
		if index >= 0 && index < size && !hasEnded {
			uids[index] = w.Pods[i].UID
		}
	}
	return uids, !slices.Contains(uids, "")
}

// configuredRanks returns the number of ranks for which the pods of a StatefulSet are configured.
func (w WorkloadEvidence) configuredRanks() int {
	size := w.Ranks()
	if injected := ptr.Deref(w.InjectedReplicas, 0); injected > 0 { // users can edit the record
		size = min(size, injected)
	}
	return int(size)
}

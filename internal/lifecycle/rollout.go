package lifecycle

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// excludeReplacedPods returns the pods whose failure counts. It excludes pods that a rollout of a
// StatefulSet or a resize deletes, because the user requested their deletion. A pod that is evicted is not
// excluded: with the strategy OnDelete or a partition, a rollout can last forever. If a StatefulSet was resized
// and is being injected again, all pods are excluded: the rollout follows within seconds, and a restart in
// between would restore the previous size. A resize that was rejected, or that takes longer, excludes only the
// pods beyond the previous size. replaced contains the deleted pods that the last pass excluded: a user can take back
// the rollout or the resize while they terminate.
func (w WorkloadEvidence) excludeReplacedPods(replaced sets.Set[types.UID]) []corev1.Pod {
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
		isOfRollout := replaced.Has(pod.UID) || isSet && isOutdated(w.StatefulSet, &pod)
		isRolledOut := pod.DeletionTimestamp != nil && !failure.IsDisrupted(&pod) && isOfRollout
		return gang.PodIndex(&pod) >= size || isRolledOut
	}
	if !slices.ContainsFunc(w.Pods, isReplaced) {
		return w.Pods // avoids a copy in the usual case
	}
	return slices.DeleteFunc(slices.Clone(w.Pods), isReplaced)
}

// listReplacedPods returns the UIDs of the deleted pods that are not among those whose failure counts, and that a
// rollout or a resize replaces. known contains those of the last pass.
func (w WorkloadEvidence) listReplacedPods(failable []corev1.Pod, known sets.Set[types.UID]) []types.UID {
	if len(failable) == len(w.Pods) {
		return nil
	}
	counts := sets.Set[types.UID]{}
	for i := range failable {
		counts.Insert(failable[i].UID)
	}
	var out []types.UID
	for i := range w.Pods {
		pod := &w.Pods[i]
		isExcluded := pod.DeletionTimestamp != nil && !counts.Has(pod.UID)
		if isExcluded && (known.Has(pod.UID) || w.isReplacedForUser(pod)) {
			out = append(out, pod.UID)
		}
	}
	return out
}

// isReplacedForUser reports whether the spec of a workload, as its controller observed it last, requires that a deleted
// pod is replaced or removed. Before that, all pods seem outdated, although somebody may have deleted the pod.
func (w WorkloadEvidence) isReplacedForUser(pod *corev1.Pod) bool {
	isRolledOut := w.StatefulSet != nil && isOutdatedByStatus(w.StatefulSet, pod)
	isRequested := int(gang.PodIndex(pod)) >= w.configuredRanks() || isRolledOut
	return isRequested && !w.IsSuspended()
}

// hasReplacedRank reports whether a rank of a StatefulSet waits for the end of one of the given pods.
func (w WorkloadEvidence) hasReplacedRank(replaced sets.Set[types.UID]) bool {
	isPossible := w.StatefulSet != nil && replaced.Len() > 0 // avoids a search in the usual case
	return isPossible && slices.ContainsFunc(w.Pods, func(pod corev1.Pod) bool {
		return replaced.Has(pod.UID) && int(gang.PodIndex(&pod)) < w.configuredRanks()
	})
}

// isResizing reports whether a StatefulSet was resized, and its injection has neither ended nor is overdue. A size of
// 0 suspends the set.
func (w WorkloadEvidence) isResizing() bool {
	requested := ptr.Deref(w.StatefulSet.Spec.Replicas, 0)
	isResized := w.InjectedReplicas != nil && requested > 0 && requested != *w.InjectedReplicas
	return isResized && !w.ResizeOverdue
}

// hasTwoRevisions reports whether pods of a StatefulSet can have another template than its spec, because a rollout is
// not complete or the controller of the set has not observed the spec.
func hasTwoRevisions(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration < set.Generation || set.Status.CurrentRevision != set.Status.UpdateRevision
}

// replacesPods reports whether a StatefulSet deletes its outdated pods. With OnDelete, its user does.
func replacesPods(set *appsv1.StatefulSet) bool {
	return set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
}

// isOutdated reports whether a rollout of a StatefulSet can replace a pod. The status keeps two revisions with a
// partition, and before Kubernetes 1.37 with the strategy OnDelete: the label of the pod then shows whether it has
// the revision of its index (kubernetes pkg/controller/statefulset, newVersionedStatefulSetPod). The label also shows
// a pod that a complete rollout has replaced, and that a late cache still contains. A pod below a partition keeps the
// revision of a rollout that its user took back.
func isOutdated(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return set.Status.ObservedGeneration < set.Generation || isOutdatedByStatus(set, pod)
}

// isOutdatedByStatus is [isOutdated] for the spec that the controller of a StatefulSet observed last.
func isOutdatedByStatus(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	status, partition := set.Status, findPartition(set)
	isRolling, hasTwo := replacesPods(set) && partition == 0, status.CurrentRevision != status.UpdateRevision
	if isRolling && hasTwo {
		return true
	}
	revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	if gang.PodIndex(pod) < partition {
		return hasTwo && revision != status.CurrentRevision
	}
	return revision != status.UpdateRevision
}

// findPartition returns the index below which a rollout of a StatefulSet replaces no pods.
func findPartition(set *appsv1.StatefulSet) int32 {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return ptr.Deref(rolling.Partition, 0)
	}
	return 0
}

// isRollingOut reports whether a StatefulSet replaces its pods because its user changed it; false for a
// Job. A rank without a pod can be one that the rollout replaces.
func (w WorkloadEvidence) isRollingOut() bool {
	set := w.StatefulSet
	if set == nil || w.isResizing() {
		return set != nil
	}
	isRankMissing := len(w.Pods) < w.configuredRanks()
	return isRankMissing && hasTwoRevisions(set) && replacesPods(set) ||
		slices.ContainsFunc(w.Pods, func(pod corev1.Pod) bool { return isOutdated(set, &pod) })
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
		index := int(gang.PodIndex(&w.Pods[i]))
		if index >= 0 && index < size && !IsPodTerminal(&w.Pods[i]) {
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

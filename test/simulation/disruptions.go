package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// ranksFrom reports whether a pod is one of n ranks that start with a rank.
func (s *simulation) ranksFrom(pod *corev1.Pod, first, n int) bool {
	for rank := first; rank < first+n; rank++ {
		workload, index := s.scenario.rankOf(rank)
		if controllerOf(pod) == workload && gang.PodIndex(pod) == index {
			return true
		}
	}
	return false
}

// disruption is one cause that ends pods one after the other, as a drain does.
type disruption struct {
	pods []*corev1.Pod
	// reason is that of an eviction; empty if somebody deletes the pods.
	reason string
	// isCounted is true after a pod was hit, and isExcused after nothing may show that one was.
	isCounted, isExcused bool
}

// disrupt evicts pods, or deletes them without a reason. It counts one disruption if it hits any.
func (s *simulation) disrupt(selected func(*corev1.Pod) bool, reason string) {
	d := &disruption{reason: reason}
	for _, o := range s.api.list(podKind) {
		if pod := o.(*corev1.Pod); gangOf(pod) == gangName && selected(pod) {
			d.pods = append(d.pods, pod)
		}
	}
	s.continueDisruption(d)
}

// continueDisruption hits the next pod of a disruption, and the others later.
func (s *simulation) continueDisruption(d *disruption) {
	for len(d.pods) > 0 {
		o := s.api.find(podKind, d.pods[0].Name)
		isSame := o != nil && o.GetUID() == d.pods[0].UID
		d.pods = d.pods[1:]
		if !isSame {
			continue
		}
		if pod := o.(*corev1.Pod); !isTerminal(pod) && pod.DeletionTimestamp == nil {
			s.hitPod(d, pod)
			s.after("drain", func() { s.continueDisruption(d) })
			return
		}
	}
}

// hitPod evicts or deletes a pod.
func (s *simulation) hitPod(d *disruption, pod *corev1.Pod) {
	s.noteLostRank(pod)
	isRecorded := !isOfStatefulSet(pod) && !s.scenario.IgnoresDisruptions || s.isReadyRecorded()
	s.noteDisruption(d.reason)
	s.oracle.isUnrecorded = s.oracle.final.Phase == lifecycle.Suspended
	if s.oracle.succeeded[controllerOf(pod)].Has(gang.PodIndex(pod)) {
		s.oracle.successTime = time.Time{} // the eviction is reported before the success, and may follow too many
	}
	if d.reason == "" {
		_ = s.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID}) // it exists
	} else {
		evict(s.api, pod, d.reason)
	}
	if !d.isCounted {
		s.oracle.disruptions++
		d.isCounted = true
	}
	isHidden := !isRecorded || s.isReplacementHidden(pod)
	if !d.isExcused && (isHidden || s.isUnobservedNextToLostNode() || s.isUnobservedSinceSuspension()) {
		s.oracle.failures++ // nothing shows that the pod was replaced, if a peer fails before all ranks are ready
		d.isExcused = true
	}
}

// noteLostRank records that a rank which has not finished its work is lost after all ranks were ready. Its peers must
// not run on.
func (s *simulation) noteLostRank(pod *corev1.Pod) {
	workload, index := controllerOf(pod), gang.PodIndex(pod)
	runs := s.programs.find(workload, index) != nil && !s.oracle.succeeded[workload].Has(index)
	if runs && s.oracle.isOfGang(pod) && s.oracle.final.Phase == lifecycle.Running && s.oracle.resizes == 0 {
		s.oracle.failureTime, s.oracle.lostPod = s.now, pod.UID
	}
}

// terminateByKubelet lets the kubelet terminate the pod of a program.
func (s *simulation) terminateByKubelet(p *process, sandbox time.Duration) {
	s.noteLostRank(p.pod)
	s.noteDisruption(corev1.PodReasonTerminationByKubelet)
	s.oracle.disruptions++
	isUnknown := isOfStatefulSet(p.pod) && !s.isReadyRecorded()
	if s.scenario.Behavior.AbortsWithoutPeers || isUnknown || s.isUnobservedNextToLostNode() {
		s.oracle.failures++ // peers fail before the kubelet reports what it has terminated
	}
	p.terminateByKubelet(sandbox)
}

// isUnobservedNextToLostNode reports whether no manager runs and a node is lost. If all peers of a deleted pod are on
// such a node, their exits are reported when the node returns. The gang has restarted because of the node by then, and
// these exits seem to be the cause: they precede the loss, and the time of the deletion is not known.
func (s *simulation) isUnobservedNextToLostNode() bool {
	return len(s.leaders()) == 0 && slices.ContainsFunc(s.nodes, func(n *node) bool { return n.lost })
}

// isUnobservedSinceSuspension reports whether no manager has run since the gang was suspended. The next one finds
// failed pods that its Job counts, and those may be older than the suspension.
func (s *simulation) isUnobservedSinceSuspension() bool {
	return len(s.leaders()) == 0 && s.oracle.final.Phase == lifecycle.Suspended
}

// isReadyRecorded reports whether a status says that all ranks have been ready. A status is deleted with its members.
func (s *simulation) isReadyRecorded() bool {
	return s.oracle.final.Phase == lifecycle.Running && s.isAnyStatusExcept("")
}

// isReplacementHidden reports whether a finalizer keeps another pod of a StatefulSet. After that pod has ended, nobody
// can tell whether the StatefulSet has replaced a pod (internal/lifecycle, listRankUIDs).
func (s *simulation) isReplacementHidden(pod *corev1.Pod) bool {
	return isOfStatefulSet(pod) && slices.ContainsFunc(s.api.list(podKind), func(o client.Object) bool {
		return isHeld(o) && o.GetName() != pod.Name && controllerOf(o.(*corev1.Pod)) == controllerOf(pod)
	})
}

// forgetDisruptions records that nobody knows any more of the disruptions that no status contains. The next manager
// finds what isUnobservedSinceSuspension describes.
func (s *simulation) forgetDisruptions() {
	if s.oracle.isUnrecorded && len(s.leaders()) == 0 {
		s.oracle.failures++
		s.oracle.isUnrecorded = false
	}
}

func isOfStatefulSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == string(statefulSetKind)
}

// noteDisruption records that nobody may observe when a rank was deleted. With exit code 0, the rank seems to have
// completed. Otherwise a rank whose clock is behind seems to have failed first. Without a reason, a confirmed deletion
// does not tell when it was requested, which a late manager has not observed.
func (s *simulation) noteDisruption(reason string) {
	if s.scenario.ObservesDrains {
		return
	}
	exitsWithZero := s.scenario.Behavior.SIGTERMExitCode == 0
	s.oracle.mayExitUnobserved = s.oracle.mayExitUnobserved || exitsWithZero
	isBehind := slices.ContainsFunc(s.scenario.NodeSkews, func(skew time.Duration) bool { return skew < 0 })
	isObserved := len(s.leaders()) > 0
	switch {
	case !isBehind || isObserved && (exitsWithZero || reason != ""):
	case exitsWithZero:
		s.oracle.resultLost = true
	default:
		s.oracle.failures++
	}
}

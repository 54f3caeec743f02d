package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// apply makes an incident happen.
func (s *simulation) apply(i Incident) {
	s.record("incident", "%s (%d, %d)", i.Kind, i.Target, i.Value)
	switch i.Kind {
	case rankExits, rankStalls, rankSucceeds, podEvicted, podDeleted, podRemoved, podHeld, podsReleased, podForced,
		podTerminated, deviceFails, deviceRecovers:
		s.applyToRank(i)
	case nodeDrained, nodeLost, nodeReturns, nodeRemoved, nodeRestarts, nodeBreaks, nodeRepaired:
		s.applyToNode(i, s.nodes[i.Target%len(s.nodes)])
	case userSuspends, userResumes, memberResumed, queuePreempts, queueAdmits:
		s.applySuspension(i)
	case managerCrashes, crashInPass, managerStarts:
		s.applyToManager(i)
	case controllersRestart:
		s.jobs.restart()
		s.sets.restart()
	case webhookDown, webhookUp:
		s.admission.down = i.Kind == webhookDown
	case writesDenied, memberDenied, writesAllowed, resizesDenied, resizesAllowed:
		s.applyToPolicy(i)
	case nodesFull:
		s.scheduler.room = i.Value
	case nodesFree:
		s.scheduler.room = 0
	default:
		s.applyToMember(i)
	}
}

// applyToPolicy changes what policies permit.
func (s *simulation) applyToPolicy(i Incident) {
	switch i.Kind {
	case writesDenied:
		s.oracle.forbidden.Insert(string(deniedKinds[i.Target%len(deniedKinds)]))
	case memberDenied:
		s.oracle.forbidden.Insert(s.scenario.members()[i.Target].name)
	case writesAllowed:
		clear(s.oracle.forbidden)
	case resizesDenied:
		s.admission.mostReplicas, s.admission.denialCode = s.scenario.Ranks, int32(i.Value)
	case resizesAllowed:
		s.admission.denialCode = 0
	}
}

// deniedKinds are the kinds whose writes a policy can deny.
var deniedKinds = []kind{jobKind, statefulSetKind, serviceKind}

func (s *simulation) applyToRank(i Incident) {
	switch i.Kind {
	case podEvicted:
		isEvicted := func(pod *corev1.Pod) bool { return s.ranksFrom(pod, i.Target, max(1, i.Value)) }
		s.disrupt(isEvicted, "EvictionByEvictionAPI")
	case podDeleted:
		s.disrupt(func(pod *corev1.Pod) bool { return s.ranksFrom(pod, i.Target, 1) }, "")
	case podRemoved:
		s.removePod(i)
	case podHeld:
		s.holdPod(i.Target)
	case podsReleased:
		s.releasePods()
	case podTerminated:
		if p := s.programs.find(s.scenario.rankOf(i.Target)); p != nil {
			s.terminateByKubelet(p, time.Duration(i.Value)*time.Second)
		}
	default:
		if p := s.programs.find(s.scenario.rankOf(i.Target)); p != nil {
			s.applyToProgram(i, p)
		}
	}
}

// applyToProgram applies an incident to the program that runs as a rank.
func (s *simulation) applyToProgram(i Incident, p *process) {
	switch i.Kind {
	case rankExits:
		s.oracle.failures++
		s.oracle.nonRetriable = s.oracle.nonRetriable || s.scenario.NonRetriable != "" && i.Value == 99
		p.exit(int32(max(1, i.Value)))
	case rankStalls:
		if s.oracle.isResumptionHidden() {
			return
		}
		s.oracle.failures++
		s.programs.stall(p)
	case rankSucceeds:
		if isOfStatefulSet(p.pod) && p.restarts > 0 && (len(s.leaders()) == 0 || s.scenario.changesLeader()) {
			s.oracle.failureTime = time.Time{} // the kubelet reports only the last exit of a container
		}
		p.exit(0)
	case podForced:
		s.noteDisruption("")
		s.oracle.disruptions++
		_ = s.api.delete(podKind, p.pod.Name, deleteOptions{uid: p.pod.UID, force: true}) // it exists
		p.kill()
	case deviceFails, deviceRecovers:
		if p.isSick = i.Kind == deviceFails; p.isSick {
			s.oracle.disruptions++
		}
		p.report()
	}
}

// removePod deletes the finished pod of a rank that its Job has counted.
func (s *simulation) removePod(i Incident) {
	for _, o := range s.api.list(podKind) {
		if pod := o.(*corev1.Pod); isTerminal(pod) && !isTracked(pod) && s.ranksFrom(pod, i.Target, 1) {
			s.oracle.disruptions++                               // without a record, nobody knows that the rank had finished
			_ = s.api.delete(podKind, pod.Name, deleteOptions{}) // it exists
		}
	}
}

// holdFinalizer is the finalizer of a stranger, such as an operator that reads pods before they are gone.
const holdFinalizer = "example.com/hold"

// holdPod adds the finalizer to the pod of a rank.
func (s *simulation) holdPod(target int) {
	for _, o := range s.api.list(podKind) {
		if pod := o.(*corev1.Pod); pod.DeletionTimestamp == nil && s.ranksFrom(pod, target, 1) {
			held := clone(pod)
			held.Finalizers = append(held.Finalizers, holdFinalizer)
			_, _ = s.api.update(held, "") // it exists
		}
	}
}

func (s *simulation) releasePods() {
	for _, o := range s.api.list(podKind) {
		if isHeld(o) {
			released := clone(o)
			removeFinalizer(released, holdFinalizer)
			_, _ = s.api.update(released, "") // it exists
		}
	}
}

func isHeld(pod client.Object) bool { return slices.Contains(pod.GetFinalizers(), holdFinalizer) }

func (s *simulation) applyToNode(i Incident, n *node) {
	switch i.Kind {
	case nodeDrained:
		s.disrupt(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == n.name }, "EvictionByEvictionAPI")
	case nodeLost:
		if !n.lost {
			s.oracle.disruptions++
			s.oracle.successTime = time.Time{} // the node may not have reported it
			n.lose()
			s.programs.timeOut(n)
			if s.isUnobservedNextToLostNode() {
				s.oracle.failures++ // a pod may have been deleted before
			}
		}
	case nodeRestarts:
		s.restartNode(n, time.Duration(i.Value)*time.Second)
	case nodeBreaks:
		n.broken = true
		for _, p := range n.sortedProcesses() {
			s.programs.failOnBrokenNode(p)
		}
	case nodeRepaired:
		n.broken = false
	case nodeReturns:
		if n.lost && !n.removed {
			n.recover()
		}
	case nodeRemoved:
		if n.lost && !n.removed {
			s.oracle.failures++ // the peers may fail before Kubernetes reports that the node is lost
			n.remove()
			s.at(s.now.Add(time.Minute), n.recover) // a new machine with the name
		}
	}
}

// restartNode restarts a node that is not lost.
func (s *simulation) restartNode(n *node, off time.Duration) {
	if n.lost {
		return
	}
	s.oracle.disruptions++
	s.oracle.successTime = time.Time{} // the node may not have reported it
	if s.scenario.Behavior.AbortsWithoutPeers || s.isUnobservedNextToLostNode() {
		s.oracle.failures++ // peers fail before the node reports what it has lost
	}
	n.restart(off)
}

func (s *simulation) applySuspension(i Incident) {
	members := s.scenario.members()
	switch i.Kind {
	case userSuspends:
		s.suspendMember(members[i.Target%len(members)])
	case userResumes:
		if s.scenario.Shape == queuedJob {
			return
		}
		s.userSuspended = false
		s.recordResumption()
		for _, m := range members {
			s.setSuspend(m, false)
		}
	case memberResumed:
		s.setSuspend(members[i.Target%len(members)], false)
	case queuePreempts:
		if s.scenario.Shape == queuedJob {
			s.noteSuspension()
			s.updateMember(members[0], func(w gang.Workload) { w.Job.Spec.Suspend = ptr.To(true) })
			s.after("kueue/requests", func() { s.resetStartTime(members[0]) })
		}
	case queueAdmits:
		if s.scenario.Shape == queuedJob {
			s.userSuspended = false
			s.admitByQueue(members[0])
		}
	}
}

// noteSuspension records that a user or a queue suspends a member. If no manager runs, nobody observes why the peers
// fail, or that the pods are from before the suspension.
func (s *simulation) noteSuspension() {
	s.userSuspended = true
	s.oracle.suspended++
	if len(s.leaders()) == 0 {
		s.oracle.failures++
		s.oracle.disruptions++
	}
}

// suspendMember suspends an unfinished Job, or scales a StatefulSet to 0, as a user does.
func (s *simulation) suspendMember(m memberSpec) {
	w, ok := s.member(m)
	if s.scenario.Shape == queuedJob || !ok || w.Job != nil && isJobFinished(w.Job) {
		return
	}
	if w.StatefulSet != nil && (w.IsSuspended() || s.oracle.final.Phase.Terminal()) {
		return
	}
	s.noteSuspension()
	if len(s.scenario.members()) > 1 {
		s.oracle.parted++ // the other members run on, and restart after the user resumes the member
		s.oracle.startedApart = true
	}
	s.setSuspend(m, true)
}

// setSuspend suspends or resumes a Job, or scales a StatefulSet to 0 and back, as a user does.
func (s *simulation) setSuspend(m memberSpec, suspend bool) {
	switch {
	case !m.isStatefulSet:
		s.updateMember(m, func(w gang.Workload) { w.Job.Spec.Suspend = ptr.To(suspend) })
	case suspend:
		s.scaledToZero[m.name] = true
		s.scale(m, 0)
	case s.scaledToZero[m.name]:
		delete(s.scaledToZero, m.name)
		s.scale(m, s.oracle.sizeOf(m))
	}
}

// recordResumption records that a user or a queue resumes the gang. They do not wait for the pods that they terminated.
// Without the webhook, they do not wait for those of a restart either.
func (s *simulation) recordResumption() {
	o := s.oracle
	mayBeUnrecorded := len(s.scaledToZero) > 0 || len(o.forbidden) > 0 || s.scenario.changesLeader()
	if mayBeUnrecorded && o.final.Phase != lifecycle.Suspended {
		o.failures++ // nothing shows why pods are deleted and peers fail
		o.disruptions++
	}
	isEarly := s.admission.down || s.isAnyPodLeft()
	o.resumedTooEarly = o.resumedTooEarly || isEarly
	o.resumedUnobserved = o.resumedUnobserved || isEarly && (s.admission.down || o.final.Phase != lifecycle.Suspended)
}

// isAnyPodLeft reports whether the gang has a pod that has not terminated and that no restart of Rollcall
// terminates.
func (s *simulation) isAnyPodLeft() bool {
	isLeft := func(o client.Object) bool {
		pod := o.(*corev1.Pod)
		return gangOf(pod) == gangName && !isTerminal(pod)
	}
	return s.oracle.final.Phase != lifecycle.Restarting && slices.ContainsFunc(s.api.list(podKind), isLeft)
}

func (s *simulation) applyToManager(i Incident) {
	switch i.Kind {
	case managerCrashes:
		for _, m := range s.leaders() {
			m.crash()
		}
	case crashInPass:
		for _, m := range s.leaders() {
			m.requestsLeft = i.Value
		}
	case managerStarts: // the former leader notices later that another one leads
		former := s.leaders()
		if len(former) > 0 {
			s.oracle.disruptions++ // the former leader can record pods of a StatefulSet that are gone
			if s.scenario.hasStatefulSet() {
				s.oracle.failures++ // both can scale the StatefulSet, and the peers of its pods fail
			}
		}
		s.startManager()
		s.at(s.now.Add(time.Duration(i.Value)*time.Second), func() {
			for _, m := range former {
				if !m.crashed {
					m.crash()
				}
			}
		})
	}
}

func (s *simulation) applyToMember(i Incident) {
	members := s.scenario.members()
	m := members[i.Target%len(members)]
	switch i.Kind {
	case memberDeleted:
		if w, ok := s.member(m); ok {
			s.oracle.disruptions++
			s.deleted[m.name] = true
			if len(members) > 1 && !s.isAnyStatusExcept(m.name) {
				s.oracle.failures++ // nothing shows that the member existed
			}
			_ = s.api.delete(kindOf(w.Object()), m.name, deleteOptions{uid: w.Meta().UID}) // it exists
		}
	case memberCreated:
		for _, m := range members {
			if s.deleted[m.name] {
				delete(s.deleted, m.name)
				if s.oracle.final.Phase.Terminal() {
					s.oracle.failures++ // programs that failed after the end of the gang count for the new run
				}
				s.oracle.startedApart = true
				delete(s.oracle.succeeded, m.name)
				s.oracle.completed.Delete(m.name)
				s.create(m)
			}
		}
	case setResized:
		if !s.oracle.final.Phase.Terminal() { // otherwise the user would run the gang again
			s.oracle.resizes++
			s.oracle.failures++    // the rollout ends peers of ranks that abort
			s.oracle.disruptions++ // and their pods
			if int32(i.Value) < s.oracle.sizeOf(m) {
				s.oracle.failureTime = time.Time{} // the resize may remove the rank that failed
			}
			s.scale(m, int32(i.Value))
		}
	case setUpdated:
		s.oracle.resizes++ // the rollout replaces ranks one by one, as after a resize
		s.oracle.failures += int(s.scenario.Ranks)
		s.oracle.disruptions += int(s.scenario.Ranks)
		s.updateMember(m, func(w gang.Workload) {
			w.Template().Spec.Containers[0].Image = i.image()
		})
	case singleJobComes:
		s.createSingleJob()
	case strangerComes:
		s.createStranger()
	}
}

// isAnyStatusExcept reports whether a member with another name exists that has a status of Rollcall.
func (s *simulation) isAnyStatusExcept(name string) bool {
	return slices.ContainsFunc(s.scenario.members(), func(m memberSpec) bool {
		w, ok := s.member(m)
		return ok && m.name != name && len(lifecycle.ReadStatus(w).MemberUIDs) > 0 // a copied one does not count
	})
}

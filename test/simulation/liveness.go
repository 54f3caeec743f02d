package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
)

// checkQuiet checks the gang after nothing has happened for a long time.
func (o *oracle) checkQuiet(passes int) {
	if passes > int(quietPeriod/(2*time.Second)) {
		o.violate(tooManyPasses, "%d passes in %s without an event", passes, quietPeriod)
	}
	status := o.final
	missing := o.missingRanks()
	o.checkSizes()
	o.checkSurvivors()
	if reason := o.describeProblem(missing); reason != "" {
		o.violate(waitsIndefinitely, "%s: phase %s, %s: %s", reason, status.Phase, status.Reason, status.Message)
	}
}

// missingRanks returns the number of ranks that neither run nor have succeeded.
func (o *oracle) missingRanks() int {
	missing := -o.liveRanks()
	for _, m := range o.scenario.members() {
		missing += int(o.sizeOf(m))
		for index := range o.succeeded[m.name] {
			if index < o.sizeOf(m) {
				missing--
			}
		}
	}
	return missing
}

// sizeOf returns the number of ranks of a member, which a resize of a StatefulSet changes.
func (o *oracle) sizeOf(m memberSpec) int32 {
	if size, ok := o.sizes[m.name]; ok {
		return size
	}
	return m.size
}

// checkSizes checks that all ranks of a StatefulSet are configured for its size, after a resize that nobody denies.
// With OnDelete, the user deletes the pods of the former size. A pod that does not terminate stops a rollout. What runs
// on after the end of the gang keeps its size.
func (o *oracle) checkSizes() {
	if o.scenario.ReplacesOnDelete || o.isExcused() || o.final.Phase.Terminal() {
		return
	}
	for _, p := range o.programs.live {
		workload := p.pod.OwnerReferences[0]
		size, isResizable := o.sizes[workload.Name]
		if !isResizable || !o.isOfGang(p.pod) || p.node.lost || p.terminating || o.admission.denialCode > 0 {
			continue
		}
		if configured, ok := o.configuredSize(p.pod); ok && configured != size {
			o.violate(wrongSize, "%s is configured for %d ranks, not %d", p.pod.Name, configured, size)
		}
	}
}

// configuredSize returns the number of ranks for which a pod of a gang of one StatefulSet is configured.
func (o *oracle) configuredSize(pod *corev1.Pod) (size int32, ok bool) {
	for _, e := range pod.Spec.Containers[0].Env {
		if e.Name == injectors.EnvSize && o.scenario.Shape == oneStatefulSet {
			size, err := strconv.ParseInt(e.Value, 10, 32)
			return int32(size), err == nil
		}
	}
	return 0, false
}

// hasRank reports whether a pod is one of the ranks for which it is configured. The others exist if a policy denied a
// resize, which Rollcall reports, and their failures do not count (internal/lifecycle, excludeReplacedPods).
// The pods of an elastic gang contain no size, but its StatefulSet does.
func (o *oracle) hasRank(pod *corev1.Pod) bool {
	size, ok := o.configuredSize(pod)
	if set, exists := o.api.find(statefulSetKind, controllerOf(pod)).(*appsv1.StatefulSet); exists &&
		o.scenario.Elastic != "" && o.admission.denialCode > 0 {
		size, ok = injection.RecordedSize(gang.Workload{StatefulSet: set}), true
	}
	return !ok || gang.PodIndex(pod) < size
}

// checkSurvivors checks that no rank runs on that started before a program of its gang failed. With the policy pod,
// which is the default of an elastic gang, the other ranks do.
func (o *oracle) checkSurvivors() {
	hasPolicyPod := o.scenario.Elastic != "" && o.scenario.RestartPolicy == ""
	isUserDeleting := o.scenario.ReplacesOnDelete && o.resizes > 0 // pods of the former revision
	if hasPolicyPod || isUserDeleting || o.isExcused() || o.mayOverlap() || o.final.Phase.Terminal() {
		return
	}
	for _, p := range o.programs.live {
		if o.isOfGang(p.pod) && !p.node.lost && !p.terminating && p.startTime.Before(o.failureTime) {
			o.violate(failureIgnored, "%s runs since %s: phase %s, %s", p.pod.Name, p.startTime.Sub(epoch), o.final.Phase,
				o.final.Message)
		}
	}
}

// isOutdated reports whether a rollout replaces a pod of a StatefulSet, whatever its program does.
func (o *oracle) isOutdated(pod *corev1.Pod) bool {
	set, ok := o.api.find(statefulSetKind, controllerOf(pod)).(*appsv1.StatefulSet)
	return ok && !o.scenario.ReplacesOnDelete && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != revisionOf(set)
}

// isResumptionHidden reports whether Rollcall has not observed yet that somebody resumed a gang of one StatefulSet,
// which a user or a restart had suspended. The StatefulSet does not tell when, so earlier failures seem to be those of
// the attempt before.
func (o *oracle) isResumptionHidden() bool {
	w, ok := o.member(o.scenario.members()[0])
	isResumed := o.final.Phase == lifecycle.Suspended || o.final.Phase == lifecycle.Restarting && ok && !w.IsSuspended()
	return o.scenario.Shape == oneStatefulSet && isResumed
}

// readinessPeriod is how long a status may be wrong about the ranks: longer than the delays of all streams.
const readinessPeriod = 40 * time.Second

// watchReadiness checks again and again that the status does not claim ranks that have not run for a period.
func (o *oracle) watchReadiness(lastMessage string) {
	message := ""
	isClaim := strings.Contains(o.final.Message, "are ready") && !strings.HasPrefix(o.final.Message, "Waiting")
	if missing := o.missingRanks(); isClaim && missing > 0 {
		message = o.final.Message
		if message == lastMessage {
			o.violate(falseReadiness, "%d of %d ranks do not run: %s", missing, o.scenario.Ranks, message)
		}
	}
	o.at(o.now.Add(readinessPeriod), func() { o.watchReadiness(message) })
}

// liveRanks returns the number of ranks of the gang with a running program.
func (o *oracle) liveRanks() int {
	n := 0
	for _, p := range o.programs.live {
		if gangOf(p.pod) == gangName && !o.strangers.Has(p.pod.OwnerReferences[0].Name) && !p.node.lost && !p.terminating {
			n++
		}
	}
	return n
}

// checkEnd checks the gang after all programs have finished their work.
func (o *oracle) checkEnd() {
	phase := o.final.Phase
	if o.isExcused() || phase.Terminal() || o.userSuspended || o.namesProblem() {
		return
	}
	o.violate(waitsIndefinitely, "all programs have finished: phase %s, %s: %s", phase, o.final.Reason, o.final.Message)
}

// isExcused reports whether something that nobody repaired keeps the gang from running.
func (o *oracle) isExcused() bool {
	isAnyLost := slices.ContainsFunc(o.nodes, func(n *node) bool { return n.lost })
	isAnyHeld := slices.ContainsFunc(o.api.list(podKind), isHeld)
	isUnrepaired := isAnyLost || isAnyHeld || o.scheduler.room > 0 || len(o.deleted) > 0 || len(o.forbidden) > 0
	namesMembers := o.final.Reason == gang.ReasonMembersMissing || o.final.Reason == gang.ReasonMemberConflict
	isPartlyFinished := namesMembers &&
		(o.isAnyMemberFinished() || o.isUnfinishedMemberGone())
	isCompleteTooEarly := o.mayExitUnobserved && o.completed.Len() > 0 // docs/tasks/configure-completion.md
	return isUnrepaired || isPartlyFinished || isCompleteTooEarly || o.resultLost || len(o.last) == 0 || !o.isAnyMember()
}

// isWaitingForPod reports whether only a terminating pod that stays may keep the gang from running, and the status does
// not name it. An Event names ranks that no node can run.
func (o *oracle) isWaitingForPod() bool {
	unnamed := []gang.Reason{gang.ReasonGangPending, gang.ReasonGangStarting, gang.ReasonGangRestarting}
	isKeptByOthers := len(o.deleted) > 0 || len(o.forbidden) > 0 || o.resultLost || !o.isAnyMember()
	if isKeptByOthers || !slices.Contains(unnamed, o.final.Reason) {
		return false
	}
	isLeft := func(o client.Object) bool { return o.GetDeletionTimestamp() != nil }
	isUnscheduled := func(o client.Object) bool {
		return o.GetDeletionTimestamp() == nil && o.(*corev1.Pod).Spec.NodeName == ""
	}
	pods := slices.DeleteFunc(slices.Clone(o.api.list(podKind)), func(pod client.Object) bool {
		return !o.isOfGang(pod.(*corev1.Pod))
	})
	return slices.ContainsFunc(pods, isLeft) && !slices.ContainsFunc(pods, isUnscheduled)
}

// isAnyMember reports whether a workload of the gang exists.
func (o *oracle) isAnyMember() bool {
	return slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool {
		_, ok := o.member(m)
		return ok
	})
}

// conflictsWithStranger reports whether the status names a workload that came before all members knew that the gang had
// failed, or before its user started the next run.
func (o *oracle) conflictsWithStranger() bool {
	return o.strangers.Len() > 0 && o.final.Reason == gang.ReasonMemberConflict
}

// isAnyMemberSuspended reports whether a workload of the gang is suspended.
func (o *oracle) isAnyMemberSuspended() bool {
	return slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool {
		w, ok := o.member(m)
		return ok && w.IsSuspended()
	})
}

// describeProblem describes why the gang is not in a state in which it may stay; empty if it may.
func (o *oracle) describeProblem(missing int) string {
	status := o.final
	isSuspended := o.isAnyMemberSuspended()
	isStopped := isSuspended && status.Phase != lifecycle.Restarting
	switch {
	case o.isAnyJobFailing() && !status.Phase.Terminal() && !o.conflictsWithStranger():
		return "a Job failed"
	case missing > 0 && !isStopped && o.isWaitingForPod():
		return fmt.Sprintf("%d ranks do not run, and nobody names the pod for which they wait", missing)
	case o.isExcused() && !status.Phase.Terminal():
		return ""
	case status.Phase.Terminal():
		return o.describePodsAfterEnd()
	case o.userSuspended && !isSuspended:
		return "the gang runs although its user suspended it"
	case o.userSuspended, missing <= 0 && !isSuspended, o.namesProblem():
		return ""
	default:
		return fmt.Sprintf("%d ranks do not run", missing)
	}
}

// isAnyJobFailing reports whether Kubernetes has decided that a Job fails, in a gang that no user started again in
// part. The Job fails after its pods have terminated, which those of a lost node may never do.
func (o *oracle) isAnyJobFailing() bool {
	return !o.startedApart && len(o.forbidden) == 0 && slices.ContainsFunc(o.scenario.members(), func(m memberSpec) bool {
		w, ok := o.member(m)
		return ok && w.Job != nil && hasJobCondition(w.Job, batchv1.JobFailureTarget)
	})
}

// describePodsAfterEnd describes the pods of a gang that ended which its clean-pod-policy deletes; empty if there are
// none.
func (o *oracle) describePodsAfterEnd() string {
	if n := o.liveRanks(); n > 0 && o.scenario.CleanPodPolicy != string(gang.CleanPodPolicyNone) {
		return fmt.Sprintf("%d ranks run after the end", n)
	}
	isLeft := func(pod client.Object) bool { return o.isOfGang(pod.(*corev1.Pod)) && !isHeld(pod) }
	deletesAll := o.scenario.CleanPodPolicy == string(gang.CleanPodPolicyAll)
	isEarlierRun := o.startedApart || o.isReplaced
	if deletesAll && !isEarlierRun && !o.isExcused() && slices.ContainsFunc(o.api.list(podKind), isLeft) {
		return "pods are left after the end"
	}
	return ""
}

// isAnyMemberFinished reports whether a Job of the gang has finished. If its user created another member again,
// the Job belongs to an earlier run, and the user has to create it again, too. A Job that was suspended before it is
// complete may stay at SuccessCriteriaMet: the API server rejects a complete Job without a start time.
func (o *oracle) isAnyMemberFinished() bool {
	for _, m := range o.scenario.members() {
		if w, ok := o.member(m); ok && hasResult(w.Job) {
			return true
		}
	}
	return false
}

// isUnfinishedMemberGone reports whether a member does not exist that has not completed. Only its user can create
// it again. If the user created another member again, a member that completed before belongs to an earlier run.
func (o *oracle) isUnfinishedMemberGone() bool {
	for _, m := range o.scenario.members() {
		if _, ok := o.member(m); !ok && (!o.completed.Has(m.name) || o.isMemberRecreated()) {
			return true
		}
	}
	return false
}

// namesProblem reports whether the status names what the gang waits for, and whether that is true.
func (o *oracle) namesProblem() bool {
	switch o.final.Reason {
	case gang.ReasonMembersMissing, gang.ReasonMemberConflict:
		isOfNewRun := o.isReplaced && o.conflictsWithStranger()
		return isOfNewRun || len(o.deleted) > 0 || o.isAnyMemberFinished() || o.isUnfinishedMemberGone()
	case gang.ReasonPodStuckTerminating:
		return o.isExcused()
	case gang.ReasonRequestRejected:
		return len(o.forbidden) > 0 || o.admission.denialCode > 0
	}
	return false
}

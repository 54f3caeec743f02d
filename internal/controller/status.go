package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// The conditions of a Job for kubectl wait. A condition is added when its phase is first reached.
// docs/adr/0020-names.md explains why the types have no domain.
const (
	ConditionRunning   batchv1.JobConditionType = "GangRunning"
	ConditionSucceeded batchv1.JobConditionType = "GangSucceeded"
	ConditionFailed    batchv1.JobConditionType = "GangFailed"
)

// syncState writes the state of a gang to its members. The next pass reads the state from the first
// member, so the other members are written only if the write to the first member succeeds.
func (r *Reconciler) syncState(ctx context.Context, g *observedGang, next lifecycle.State) {
	status, ok := r.desiredStatus(ctx, g, next)
	if !ok {
		return
	}
	for _, m := range g.Members {
		if !m.IsInjected() {
			continue
		}
		if err := r.syncMember(ctx, g, m, status); err != nil {
			g.pass.handleError(err)
			r.recordRejection(g, err, obstacleRetryInterval)
			if g.isPrimaryMember(m) {
				return
			}
		}
	}
}

// syncMember writes a status to one member. If the state requires a change of the spec, one patch
// writes both.
func (r *Reconciler) syncMember(ctx context.Context, g *observedGang, m member, status lifecycle.Status) error {
	uid, version := m.Meta().UID, m.Meta().ResourceVersion
	s := g.pass.session
	a := desiredAction(g, m, status.State)
	if err := r.resetJobStatus(ctx, m, a); err != nil {
		return err
	}
	last := m.lastStatus() // the writes change the workload in memory
	isPrimary := g.isPrimaryMember(m)
	if !isPrimary { // the primary member has the status, so the failure is recorded
		g.pass.handleError(r.untrackDeletedPods(ctx, g, m, status.Phase))
	}
	wrote, err := r.applyAction(ctx, m, a, status)
	if isRejected(err) {
		if isPrimary {
			r.untrackPodsEarly(ctx, g, status.Phase)
		}
		return r.reportRejectedUpdate(ctx, g, m, err)
	}
	if err == nil && !wrote {
		wrote, err = r.writeStatusIfChanged(ctx, m, status)
	}
	if err != nil {
		return err
	}
	if isPrimary {
		g.pass.handleError(r.untrackDeletedPods(ctx, g, m, status.Phase))
	}
	if !wrote {
		return nil
	}
	put(&s.writtenVersions, uid, version)
	if s.recordStall(m, last, status, r.Clock.Now()) {
		r.recordPhaseChange(ctx, m, last, status)
	}
	if isPrimary {
		framework := "unknown"
		if m.Result != nil {
			framework = m.Result.Gang.Framework.Name
		}
		namespace := r.namespaceLabels.label(m.Meta().Namespace)
		recordTransition(namespace, framework, status, last)
		age := status.LastTransitionTime.Sub(m.Meta().CreationTimestamp.Time)
		recordSeconds(namespace, g.countAccelerators(), age, status, last)
	}
	return nil
}

// desiredStatus returns the status of a gang in its next state. It returns false if the gang must not
// be written in this pass, because a problem may disappear within seconds. SuspendedByRollcall is
// different for each member and is not set.
func (r *Reconciler) desiredStatus(
	ctx context.Context, g *observedGang, next lifecycle.State,
) (lifecycle.Status, bool) {
	status, ok := r.membersStatus(ctx, g, next)
	for _, find := range []func(*observedGang, lifecycle.State) lifecycle.Status{
		(*observedGang).childStatus, r.queueStatus, r.keyPairStatus, r.stuckPodStatus, r.stallStatus,
		(*observedGang).policyStatus,
	} {
		if status.Reason == "" {
			status = find(g, next)
		}
	}
	if status.Reason == "" {
		status.Reason, status.Message = next.Phase.Reason(), next.Describe(g.gangPolicies(), g.memberStates)
	}
	if strangers := g.describeStrangers(); strangers != "" {
		isFailure := next.Phase == lifecycle.Restarting || next.Phase == lifecycle.Failed
		switch {
		case !isFailure:
			status.Reason, status.Message = gang.ReasonMemberConflict, strangers
		case !strings.Contains(status.Message, strangers): // a repeated report contains them
			status.Message += ". " + strangers // the failure is more important
		}
	}
	status.State = next
	return status, ok
}

// membersStatus returns reason and message of a problem between the members of a multi-workload gang; the
// zero value if there is none. It returns false if the gang must not be written in this pass.
func (r *Reconciler) membersStatus(
	ctx context.Context, g *observedGang, next lifecycle.State,
) (lifecycle.Status, bool) {
	switch {
	case !g.multiWorkload:
		return lifecycle.Status{}, true
	case next.Phase == lifecycle.Succeeded:
		return r.checkWorkersReached(ctx, g)
	case next.Phase.Active():
		return r.checkMembership(ctx, g)
	case next.Phase == lifecycle.Restarting && g.lastState().Phase == lifecycle.Restarting:
		// An earlier pass reported the failure. The writes of the restart do not wait for a missing member.
		status, _ := r.checkMembership(ctx, g)
		return status, true
	default:
		return lifecycle.Status{}, true
	}
}

// writeStatusIfChanged writes a status to one member unless the member has it.
func (r *Reconciler) writeStatusIfChanged(ctx context.Context, m member, next lifecycle.Status) (bool, error) {
	label, last := lifecycle.ReadPhase(m.Workload), m.lastStatus()
	next.SuspendedByRollcall = staysSuspendedByRollcall(m.Workload, last, next.Phase)
	next.MemberNodes = last.MemberNodes
	next.Message = lifecycle.ShortenMessage(next.Message) // as it was written last
	// The seconds differ if a write to this member failed while the gang was in another phase.
	isSamePhase := label == next.Phase && last.Phase == next.Phase && last.Seconds == next.Seconds
	if isSamePhase && overridesPhaseReason(last.Reason) != overridesPhaseReason(next.Reason) {
		next.LastTransitionTime = last.LastTransitionTime
	}
	isSameKey := m.Meta().Annotations[gang.AnnotationSuspendedBy] == next.SuspendedBy()
	if label == next.Phase && isSameStatus(last, next) && isSameKey && hasCurrentConditions(m.Workload, next) {
		return false, nil
	}
	return true, r.writeStatus(ctx, m.Workload, next)
}

// isSameStatus reports whether a member with the status last needs no write to have the status next,
// given that its label has the phase. Reasons and messages of the phase itself are not compared: they
// are absent after admission, and the message may come from another release.
func isSameStatus(last, next lifecycle.Status) bool {
	bothDescribePhase := !overridesPhaseReason(last.Reason) && !overridesPhaseReason(next.Reason)
	isSameMessage := last.Reason == next.Reason && last.Message == next.Message
	return (bothDescribePhase || isSameMessage) &&
		last.Restarts == next.Restarts &&
		last.Disruptions == next.Disruptions &&
		last.FirstFailure.Equal(next.FirstFailure) &&
		isSameBookkeeping(last.Bookkeeping, next.Bookkeeping)
}

// isSameBookkeeping compares what can change while the phase stays.
func isSameBookkeeping(last, next lifecycle.Bookkeeping) bool {
	return last.Attempt == next.Attempt &&
		last.SuspendedByRollcall == next.SuspendedByRollcall &&
		last.StatefulSetPods == next.StatefulSetPods &&
		last.CompletedRanks == next.CompletedRanks &&
		last.JobStartTime.Equal(next.JobStartTime) &&
		last.ReadyTime.Equal(next.ReadyTime) && last.JobRanks == next.JobRanks &&
		last.FailedPodsBaseline == next.FailedPodsBaseline &&
		maps.EqualFunc(last.CompletedMembers, next.CompletedMembers, time.Time.Equal) &&
		reflect.DeepEqual(last.RestartRules, next.RestartRules)
}

// needsEvent reports whether a change from the status last to the status next is reported as an Event: a
// failure, a problem, or the end of a problem. Label, annotation and conditions show the other phases, so
// an Event would only repeat them (docs/adr/0008-observability.md).
func needsEvent(last, next lifecycle.Status) bool {
	return needsLog(last, next) &&
		(isWarning(next) || overridesPhaseReason(last.Reason) || overridesPhaseReason(next.Reason))
}

// needsLog reports whether a change from the status last to the status next is logged.
func needsLog(last, next lifecycle.Status) bool {
	if last.Phase != next.Phase || last.Restarts != next.Restarts || last.Disruptions != next.Disruptions {
		return true
	}
	if next.Reason == gang.ReasonPolicyViolated && last.Message != next.Message {
		return true // another policy, or another violation
	}
	// A stuck pod that was deleted ends PodStuckTerminating, but the restart was reported already.
	isRestartReportedAgain := next.Phase == lifecycle.Restarting && !overridesPhaseReason(next.Reason)
	return last.Reason != next.Reason && !isRestartReportedAgain
}

// overridesPhaseReason reports whether a reason describes a problem and not the phase.
func overridesPhaseReason(reason gang.Reason) bool {
	switch reason {
	case gang.ReasonMemberConflict, gang.ReasonMembersMissing, gang.ReasonRequestRejected, gang.ReasonKeyPairConflict,
		gang.ReasonPodGroupMissing, gang.ReasonWaitingForQueue, gang.ReasonQueueUnavailable,
		gang.ReasonWorkersNotReached, gang.ReasonPodStuckTerminating, gang.ReasonPolicyViolated, gang.ReasonStalled:
		return true
	default:
		return false
	}
}

// recordPhaseChange writes a log line and an Event about a changed status, if the change needs them.
func (r *Reconciler) recordPhaseChange(ctx context.Context, m member, last, next lifecycle.Status) {
	if needsLog(last, next) {
		log.FromContext(ctx).Info("Gang entered phase", "phase", next.Phase, "previousPhase", last.Phase,
			"reason", next.Reason, "restarts", next.Restarts, "disruptions", next.Disruptions, "member", m.Meta().Name)
	}
	eventType := corev1.EventTypeNormal
	if isWarning(next) {
		eventType = corev1.EventTypeWarning
	}
	if needsEvent(last, next) {
		r.recordEvent(m.Workload, eventType, next.Reason, eventActionUpdatePhase, next.Message)
	}
}

// isWarning reports whether the Event about a status is a warning. Missing members are not, because
// users create the workloads of a gang one after the other. Neither is a queue that works.
func isWarning(s lifecycle.Status) bool {
	return s.Reason != gang.ReasonMembersMissing && s.Reason != gang.ReasonWaitingForQueue &&
		(s.Phase == lifecycle.Failed || s.Phase == lifecycle.Restarting || overridesPhaseReason(s.Reason))
}

// reportNotInjected reports once that a workload has the Rollcall label but was admitted without
// injection. Rollcall does not inject the workload afterward, because the template of a Job is
// immutable and a running gang must not be changed.
func (r *Reconciler) reportNotInjected(ctx context.Context, w gang.Workload) error {
	status := lifecycle.Status{
		Reason: gang.ReasonNotInjected,
		Message: "The workload has the Rollcall label but was admitted without injection. " +
			"Delete and recreate it in a namespace that the Rollcall webhook covers.",
		State: lifecycle.State{LastTransitionTime: r.Clock.Now().UTC().Truncate(time.Second)},
	}
	if lifecycle.ReadStatus(w).Reason == status.Reason {
		return nil
	}
	if err := r.writeStatus(ctx, w, status); err != nil {
		return err
	}
	r.recordWarning(w, status.Reason, eventActionCheckInjection, "%s", status.Message)
	return nil
}

// writeStatus writes label, annotation and conditions by one patch of the status subresource. The
// patch contains the resource version of the cache: if the cache is stale, the API server rejects the
// patch, and the next pass decides again.
func (r *Reconciler) writeStatus(ctx context.Context, w gang.Workload, status lifecycle.Status) error {
	before := w.DeepCopy()
	if err := status.WriteTo(w); err != nil {
		return err
	}
	if w.Job != nil {
		w.Job.Status.Conditions = buildConditions(w.Job.Status.Conditions, status)
	}
	patch := client.MergeFromWithOptions(before.Object().(client.Object), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, w.Object().(client.Object), patch, FieldOwner); err != nil {
		return fmt.Errorf("writing the status of %s: %w", w.Meta().Name, err)
	}
	return nil
}

// hasCurrentConditions reports whether the conditions of a workload match a status.
func hasCurrentConditions(w gang.Workload, status lifecycle.Status) bool {
	if w.Job == nil {
		return true
	}
	have := w.Job.Status.Conditions
	return slices.EqualFunc(have, buildConditions(have, status), func(a, b batchv1.JobCondition) bool {
		return a.Type == b.Type && a.Status == b.Status
	})
}

// buildConditions returns the conditions of a Job with those of the gang updated. The condition of the
// phase becomes true. GangRunning becomes false in all other phases.
func buildConditions(have []batchv1.JobCondition, status lifecycle.Status) []batchv1.JobCondition {
	running := corev1.ConditionFalse
	if status.Phase == lifecycle.Running {
		running = corev1.ConditionTrue
	}
	out := setCondition(slices.Clone(have), ConditionRunning, running, status)
	switch status.Phase {
	case lifecycle.Succeeded:
		out = setCondition(out, ConditionSucceeded, corev1.ConditionTrue, status)
	case lifecycle.Failed:
		out = setCondition(out, ConditionFailed, corev1.ConditionTrue, status)
	}
	return out
}

// setCondition sets one condition and returns the conditions. A condition that is false and absent
// stays absent. A condition that does not change keeps its message, except GangFailed: the first
// failure may be reported after the gang failed.
func setCondition(
	conditions []batchv1.JobCondition, t batchv1.JobConditionType, value corev1.ConditionStatus, status lifecycle.Status,
) []batchv1.JobCondition {
	changed := batchv1.JobCondition{
		Type:               t,
		Status:             value,
		Reason:             string(status.Reason),
		Message:            status.Message,
		LastProbeTime:      metav1.NewTime(status.LastTransitionTime),
		LastTransitionTime: metav1.NewTime(status.LastTransitionTime),
	}
	i := slices.IndexFunc(conditions, func(c batchv1.JobCondition) bool { return c.Type == t })
	switch {
	case i < 0 && value == corev1.ConditionTrue:
		return append(conditions, changed)
	case i < 0:
	case conditions[i].Status != value:
		conditions[i] = changed
	case value == corev1.ConditionTrue && t == ConditionFailed:
		conditions[i].Message = status.Message
	}
	return conditions
}

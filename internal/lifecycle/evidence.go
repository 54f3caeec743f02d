package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// startingGracePeriod is how long a rank must be ready before its gang is Starting: long enough for new
// nodes and large images, so that the phase means a problem. Almost all gangs go directly to Running, which
// saves a write per member (docs/adr/0008-observability.md).
const startingGracePeriod = 5 * time.Minute

// Evidence is what one pass has read of a gang.
type Evidence struct {
	// Members contains the members of the gang and the status of their workloads.
	Members Members
	// Workloads contains the existing workloads that could be parsed.
	Workloads []WorkloadEvidence
	// Orphans contains the pods of deleted workloads for which a restart waits.
	Orphans []corev1.Pod
	// RankLog is what the log of rank 0 shows.
	RankLog RankLog
	// IgnoresOverduePods is true if a restart does not wait for pods whose termination is overdue, and for terminating
	// pods on a lost node.
	IgnoresOverduePods bool
	// Now is the time of the pass.
	Now time.Time
}

// WorkloadEvidence is an existing workload of a gang with its pods.
type WorkloadEvidence struct {
	gang.Workload
	// Gang is the gang as the workload describes it.
	Gang gang.Gang
	// Pods contains the pods that the workload owns.
	Pods []corev1.Pod
	// NameHolder is a terminating pod of another owner that has the name of a rank of the StatefulSet; nil if there is
	// none. The StatefulSet creates the pod of the rank only after that pod is deleted.
	NameHolder *corev1.Pod
	// InjectedReplicas is the size with which the ranks of a StatefulSet are configured; nil if it is not known.
	InjectedReplicas *int32
	// ProbedContainers names the training containers that are not ready while they make no progress.
	ProbedContainers []string
	// ResizeOverdue is true if the injection of a resized StatefulSet was rejected, or has had no result in time.
	ResizeOverdue bool
}

// Observed is what evidence shows: the snapshot from which [State.Next] decides, and the pods that the
// reconciler acts on or reports.
type Observed struct {
	Snapshot
	// Workloads contains the workloads in the order of the evidence.
	Workloads []ObservedWorkload
	// StuckPod is a pod whose termination is overdue; nil if there is none. BlocksReplacement is true if its
	// workload creates no new pod before the pod is deleted.
	StuckPod          *corev1.Pod
	BlocksReplacement bool
	// Stall describes the ranks that make no progress, if that is only reported.
	Stall Stall
	// PodCount is the number of pods, and TerminatingPods the number of those that are being deleted.
	PodCount, TerminatingPods int
	// NextCheckTime is when time alone changes what the evidence shows; zero if it does not.
	NextCheckTime time.Time
}

// ObservedWorkload is what evidence shows about one workload.
type ObservedWorkload struct {
	// NonTerminatingPods is the number of pods that are not being deleted.
	NonTerminatingPods int
	// PodsToUntrack contains the pods of a Job that somebody else than Rollcall and the Job controller deletes, and
	// that the Job must not count. It is nil if there are none.
	PodsToUntrack []*corev1.Pod
	// HasUncountedSuccess is true if a pod of a Job has succeeded and the Job has not counted the pod; see
	// [HasUncountedSuccess].
	HasUncountedSuccess bool
}

// Observe returns what the evidence of a pass shows about a gang in a state. The memory is that of the gang.
func (s State) Observe(e Evidence, m *Memory) Observed {
	out := Observed{Snapshot: Snapshot{
		Members: slices.Clone(e.Members), Now: e.Now, AllPodsTerminated: e.Members.AllSuspended(),
	}}
	known, completed := m.completed.known(s), sets.Set[int32]{}
	replaced := sets.Set[types.UID]{}
	var rankUIDs []types.UID
	var failures []*failure.Failure
	hasAllRanks := true
	unhealthy, nextCheckTime := m.observeDevices(e)
	out.NextCheckTime = nextCheckTime
	var context failure.Context
	out.JobRanks = e.jobRanks()
	readyTime := s.replacementTime(out.Snapshot)
	for _, w := range e.Workloads {
		context = s.failureContext(w, out.Members)
		context.UnhealthyPods = unhealthy
		context.OmitOutput = !e.Workloads[0].Gang.RestartRules.FailureOutput
		failable := w.excludeReplacedPods(m.replacedPods)
		replaced.Insert(w.listReplacedPods(failable, m.replacedPods)...)
		setIf(&out.RollingOut, w.hasReplacedRank(m.replacedPods))
		completedRanks, lostRanks := w.findCompletedRanks(context, known, readyTime)
		completed.Insert(completedRanks...)
		out.LostRanks += lostRanks
		failures = append(failures, context.List(w.excludeCompletedRanks(failable, known), w.Gang.RankOffset)...)
		out.addWorkload(s, e, w, failable, completed, context)
		out.ReplacedPods += w.countReplacedPods(context, readyTime)
		out.OriginalPods += w.countOriginalPods(readyTime)
		uids, isComplete := w.listRankUIDs()
		rankUIDs, hasAllRanks = append(rankUIDs, uids...), hasAllRanks && isComplete
	}
	m.replacedPods = replaced
	out.addSilence(e.RankLog)
	out.FirstFailure = context.Select(failures)
	out.addOrphans(s, e)
	if f := m.decision.unwrittenDisruption(s); f != nil {
		out.FirstFailure = f
	}
	out.CompletedRanks = m.completed.record(s, completed)
	out.FailedPodsBeforeResume = m.recordFailedPodsBeforeResume(s, out.Snapshot)
	if out.FailedPodsBeforeResume != nil {
		out.OldestPodTime = e.oldestPodTime()
	}
	if len(rankUIDs) > 0 && hasAllRanks {
		out.StatefulSetPods = IdentifyPods(rankUIDs)
	}
	return out
}

// oldestPodTime returns when the oldest pod of the workload that was resumed last was created; zero if a workload has
// none. A pod that ended before its Job was suspended once more does not count.
func (e Evidence) oldestPodTime() time.Time {
	var out time.Time
	for _, w := range e.Workloads {
		var oldest time.Time
		o := Observe(w.Workload)
		for i := range w.Pods {
			if w.Job == nil || o.HasResult() || !mayPrecedeStart(&w.Pods[i], o.StartTime) {
				oldest = earliestTime(oldest, w.Pods[i].CreationTimestamp.UTC())
			}
		}
		if oldest.IsZero() && !o.HasResult() {
			return time.Time{}
		}
		if oldest.After(out) {
			out = oldest
		}
	}
	return out
}

// mayPrecedeStart reports whether a pod of a Job may have ended before the Job was resumed. start is when its status
// says that it was resumed; zero before that.
func mayPrecedeStart(pod *corev1.Pod, start time.Time) bool {
	hasEnded := IsPodTerminal(pod) || pod.DeletionTimestamp != nil
	return hasEnded && (start.IsZero() || pod.CreationTimestamp.Time.Before(start))
}

// addOrphans adds the pods of deleted members, for which a restart waits.
func (o *Observed) addOrphans(s State, e Evidence) {
	termination := observeTermination(0, e.Orphans, e.Now, e.IgnoresOverduePods, e.IgnoresOverduePods)
	o.AllPodsTerminated = o.AllPodsTerminated && termination.allTerminated
	stuck, nextCheckTime := WorkloadEvidence{Pods: e.Orphans}.findStuckPod(s.Phase, e.Now)
	if o.StuckPod == nil {
		o.StuckPod = stuck
	}
	o.NextCheckTime = earliestTime(o.NextCheckTime, termination.nextTimeout, nextCheckTime)
}

// jobRanks returns the number of ranks of Jobs.
func (e Evidence) jobRanks() int32 {
	var out int32
	for _, w := range e.Workloads {
		if w.Job != nil {
			out += w.Ranks()
		}
	}
	return out
}

// addWorkload adds a workload and its pods, of which failable can have failed. completed contains the ranks that
// completed.
func (o *Observed) addWorkload(
	s State, e Evidence, w WorkloadEvidence, failable []corev1.Pod, completed sets.Set[int32], c failure.Context,
) {
	last := ReadStatus(w.Workload)
	if i := o.Members.indexOf(w.Meta().Name); i >= 0 {
		m := &o.Members[i]
		m.addResult(s, e, w)
		setIf(&m.Observed.Complete, w.isStatefulSetComplete(*m, completed, c.TrainingContainers, last.Phase))
		if w.StatefulSet != nil && completed.Len() > 0 {
			m.Observed.SucceededPods = max(0, w.countReadyOrCompleted(completed)-m.Observed.ReadyPods)
		}
	}
	workload := ObservedWorkload{
		NonTerminatingPods:  int(countPods(w.Pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })),
		HasUncountedSuccess: HasUncountedSuccess(w.Job, w.Pods),
	}
	isRestarting := last.Phase == Restarting
	if isRestarting || !w.isTerminating(last.State) && !w.IsSuspended() {
		workload.PodsToUntrack = findPodsToUntrack(w.Workload, failable, isRestarting)
	}
	o.Workloads = append(o.Workloads, workload)
	o.PodCount += len(w.Pods)
	o.TerminatingPods += len(w.Pods) - workload.NonTerminatingPods
	o.UncountedFailures += countUncountedFailures(w.Job, w.excludeNextAttempt(s))
	o.ObservedFailures += countObservedFailures(w.Job, w.Pods, c)
	setIf(&o.HasPods, len(w.Pods) > 0)
	setIf(&o.HasFormerPods, w.hasFormerPods(s.LastTransitionTime))
	setIf(&o.ResumedExternally, last.SuspendedByRollcall && !w.IsSuspended())
	setIf(&o.IsRankWithoutPod, w.StatefulSet != nil && len(w.Pods) < w.configuredRanks())
	setIf(&o.RollingOut, w.isRollingOut())
	o.Placement.addPods(w.Pods)
	o.addReadiness(e, w, c)
	o.addStalledRanks(e, w)
	o.addTermination(s, e, w)
}

// addResult adds what the pods of a workload show before its controller reports it.
func (s *MemberState) addResult(state State, e Evidence, w WorkloadEvidence) {
	isFinishing := w.isCompletingGang(*s, len(e.Members) == 1, state) || isPastDeadline(w.Workload, e.Now)
	s.Observed.ReportedReadyPods = s.Observed.ReadyPods
	if state.Attempt > 0 { // after a short suspension, a Job may still count the pods from before
		s.Observed.ReadyPods = min(s.Observed.ReadyPods, countPods(w.Pods, IsPodReady))
	}
	setIf(&s.Observed.Finishing, isFinishing)
}

// addReadiness adds the ranks of a workload that are not ready.
func (o *Observed) addReadiness(e Evidence, w WorkloadEvidence, c failure.Context) {
	o.NotReadyRanks = append(o.NotReadyRanks,
		NotReadyRanks(w.Pods, w.Gang.OwnMember(), w.Gang.RankOffset, c.TrainingContainers)...)
	isReady, nextCheckTime := observePartialReadiness(w.Pods, e.Now)
	setIf(&o.PartiallyReady, isReady)
	o.NextCheckTime = earliestTime(o.NextCheckTime, nextCheckTime)
}

// addTermination adds the pods of a workload that terminate.
func (o *Observed) addTermination(s State, e Evidence, w WorkloadEvidence) {
	termination := observeTermination(Observe(w.Workload).TerminatingPods, w.excludeNextAttempt(s), e.Now,
		e.IgnoresOverduePods || !w.IsSuspended(), // new pods exist already if somebody else resumed the member
		e.IgnoresOverduePods && w.IsSuspended())
	o.AllPodsTerminated = o.AllPodsTerminated && termination.allTerminated
	setIf(&o.PodsTerminating, termination.anyTerminating)
	stuck, nextCheckTime := w.findStuckPod(s.Phase, e.Now)
	if stuck != nil && (o.StuckPod == nil || stuck.Name < o.StuckPod.Name) {
		o.StuckPod, o.BlocksReplacement = stuck, w.waitsForPodDeletion()
	}
	o.NextCheckTime = earliestTime(o.NextCheckTime, nextCheckTime, termination.nextTimeout)
}

// setIf sets a value to true if a condition holds.
func setIf(value *bool, condition bool) { *value = *value || condition }

// failureContext returns the context in which the failures of a workload's pods are attributed. While the gang
// restarts, it describes the attempt that failed.
func (s State) failureContext(w WorkloadEvidence, members Members) failure.Context {
	out := failure.Context{
		Attempt:            s.podAttempt(),
		TemplateAttempt:    w.TemplateAttempt(),
		LastRestartTime:    s.LastRestartTime,
		AttemptStartTime:   s.AttemptStartTime,
		ResumeTime:         s.resumeTime(members),
		JobStartTime:       s.JobStartTime,
		ResumedApart:       s.areJobsResumedApart(members),
		TrainingContainers: trainingContainers(w.Gang),
		Preflight:          w.Gang.RestartRules.Preflight,
		IgnoresLostNodes:   !w.Gang.RestartRules.RestartOnNodeLoss,
		TerminatesStalled:  w.Job != nil && w.Gang.StallRules.File != "" && w.Gang.StallRules.Action == gang.StallRestart,
		Terminating:        members.AnySuspended() || w.isTerminating(s),
	}
	if w.Job != nil && !w.IsSuspended() && w.Job.Status.StartTime != nil {
		out.JobStartTime = w.Job.Status.StartTime.Time // another Job may have been started later
	}
	if s.Phase == Restarting || s.isFailedByRollcall() {
		out.TerminationStartTime = s.LastTransitionTime
	}
	if s.Phase == Restarting {
		out.LastRestartTime = time.Time{}
	}
	return out
}

// isTerminating reports whether the pods of a workload are deleted because the gang in a state restarts or
// has finished, or because the workload itself has finished.
func (w WorkloadEvidence) isTerminating(s State) bool {
	return s.Phase == Restarting || s.Phase.Terminal() || Observe(w.Workload).HasResult() ||
		w.mayMeetSuccessPolicy(s.Attempt)
}

// observePartialReadiness reports whether a pod has been ready for [startingGracePeriod]. If no pod
// has, nextCheckTime is when the first ready pod will have been; zero if no pod is ready.
func observePartialReadiness(pods []corev1.Pod, now time.Time) (partiallyReady bool, nextCheckTime time.Time) {
	for i := range pods {
		c := failure.FindCondition(&pods[i], corev1.PodReady, corev1.ConditionTrue)
		if c.Type == "" {
			continue
		}
		due := c.LastTransitionTime.Add(startingGracePeriod)
		if !due.After(now) {
			return true, time.Time{}
		}
		nextCheckTime = earliestTime(nextCheckTime, due)
	}
	return false, nextCheckTime
}

// earliestTime returns the earliest of the times that are not zero, or the zero value if all are.
func earliestTime(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

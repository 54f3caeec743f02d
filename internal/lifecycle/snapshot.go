package lifecycle

import (
	"time"

	"rollcall.training/internal/failure"
)

// NoRanks is the value of [Snapshot.CompletedRanks] if no rank has completed.
const NoRanks = "none"

// Snapshot is the state of a gang in the cluster, as one pass observes it.
type Snapshot struct {
	// Members contains the members of the gang and the status of their workloads.
	Members Members
	// HasPods is true if any pod of the gang exists, in whatever phase.
	HasPods bool
	// FirstFailure is the first failure among the pods of the current attempt; nil if there is none.
	// While the gang restarts, it is the first failure of the attempt that failed.
	FirstFailure *failure.Failure
	// NotReadyRanks lists ranks that are not ready with the reason; see [NotReadyRanks].
	NotReadyRanks []string
	// PartiallyReady is true if some rank has been ready for minutes.
	PartiallyReady bool
	// AllPodsTerminated is true if all members are suspended and no pod of the gang is running.
	AllPodsTerminated bool
	// UncountedFailures is the number of failed or deleted pods that [Observation.FailedPods] does
	// not contain yet, but will. FailedPods contains the failed pods in
	// status.uncountedTerminatedPods of a Job already: the Job controller has observed them.
	// UncountedFailures contains the pods that the Job controller has not observed.
	UncountedFailures int32
	// FailedPodsBeforeResume is the number of failed pods that the Jobs counted before somebody resumed a suspended
	// gang; nil if it is not known. The Jobs can count more by the pass that observes the resumption.
	FailedPodsBeforeResume *int32
	// OriginalPods is the number of pods of Jobs that run since before all ranks of the attempt were ready. JobRanks is
	// the number of ranks of Jobs.
	OriginalPods, JobRanks int32
	// CompletedRanks contains the ranks that completed in the current attempt and that nobody had deleted
	// before, such as "0,3-5", or [NoRanks]. It is empty if they are not known.
	CompletedRanks string
	// OldestPodTime is when the oldest pod of the member of a suspended gang was created that was resumed last; zero if
	// a member has no pod, and if FailedPodsBeforeResume is nil.
	OldestPodTime time.Time
	// HasFormerPods is true if pods run since before the gang entered its phase.
	HasFormerPods bool
	// ObservedFailures is the number of pods of Jobs that failed or are being deleted in the attempt.
	ObservedFailures int32
	// ReplacedPods is the number of ranks of Jobs whose pod was replaced after all ranks were ready, and is gone.
	ReplacedPods int32
	// LostRanks is the number of ranks that are not part of CompletedRanks, and for which their Job creates no pod, or
	// does so in the place of another rank: a pod was deleted, and its program exited with code 0.
	LostRanks int32
	// StatefulSetPods identifies the pods of all StatefulSets by [IdentifyPods]. It is empty if a pod is
	// missing, and if the gang has no StatefulSet.
	StatefulSetPods string
	// IsRankWithoutPod is true if a StatefulSet has no pod for one of its ranks.
	IsRankWithoutPod bool
	// RollingOut is true if a rollout or a resize of a StatefulSet replaces pods.
	RollingOut bool
	// PodsTerminating is true if a pod of the gang is being deleted and is still running.
	PodsTerminating bool
	// ResumedExternally is true if somebody else than Rollcall, such as Kueue, resumed a member that
	// Rollcall had suspended.
	ResumedExternally bool
	// Silence describes that the log of rank 0 shows no progress or a fault, for which the gang is to restart; empty if
	// it is not.
	Silence string
	// Placement counts the pods with and without a node.
	Placement Placement
	// Now is the time of the pass.
	Now time.Time
}

// statusTime returns the time of the pass to the second, which is the precision of the status.
func (s Snapshot) statusTime() time.Time { return s.Now.UTC().Truncate(time.Second) }

// isPast reports whether a deadline that runs has passed. The zero value does not run.
func (s Snapshot) isPast(deadline time.Time) bool {
	return !deadline.IsZero() && !s.Now.Before(deadline)
}

// newFailure returns a failure of the gang whose rank is not known.
func (s Snapshot) newFailure(reason, message string) *failure.Failure {
	return &failure.Failure{Rank: -1, Reason: reason, Time: s.statusTime(), Message: message}
}

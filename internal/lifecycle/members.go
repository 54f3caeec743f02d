package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
)

// Members contains the states of all members of a gang, in any order. A gang has one phase, which
// does not depend on the order.
type Members []MemberState

// MemberState is the state of one member.
type MemberState struct {
	// Member identifies the member. The zero value stands for the only member of a gang whose
	// workload could not be parsed.
	gang.Member
	// Exists is false if the workload does not exist. Observed is the zero value then, unless the workload
	// completed before; see [Members.RestoreCompleted].
	Exists bool
	// MinReady is the number of ranks that must be ready for the gang to run.
	MinReady int32
	// DeterminesCompletion is true if the gang finishes when this member finishes.
	DeterminesCompletion bool
	// CompletesWithFirstPod is true if the member completes when its first pod succeeds.
	CompletesWithFirstPod bool
	// LongRunning is true if the gang can finish while this member runs.
	LongRunning bool
	// Observed is what the workload itself shows.
	Observed Observation
}

// NewSingleMember returns the members of a gang of one workload that could not be parsed.
func NewSingleMember(observed Observation) Members {
	return Members{{Exists: true, MinReady: observed.Size, Observed: observed}}
}

// ObserveMembers returns the states of all members of g. The function find returns the observation of
// a workload by its name, and false if the workload does not exist.
func ObserveMembers(g gang.Gang, find func(workload string) (Observation, bool)) Members {
	var out Members
	for _, m := range g.Members {
		role, _ := g.Framework.FindRole(m.Role)
		s := MemberState{
			Member:                m,
			MinReady:              m.Size,
			DeterminesCompletion:  g.DeterminesCompletion(m),
			CompletesWithFirstPod: g.CompletesWithFirstPod(m),
			LongRunning:           role.LongRunning,
		}
		if observed, ok := find(m.WorkloadName); ok {
			s.Exists, s.Observed, s.MinReady = true, observed, observed.Size
		}
		if g.IsElasticRole(m.Role) {
			s.MinReady = min(s.MinReady, g.Elastic.Min)
		}
		out = append(out, s)
	}
	return out
}

// isSuspended reports whether the spec of an existing member requests no pods: the workload is
// suspended, or its size is 0, such as a Job with parallelism 0.
func (s MemberState) isSuspended() bool {
	return s.Exists && (s.Observed.Suspended || s.Observed.Size == 0)
}

// isSuspendedExternally reports whether somebody else than Rollcall suspended the member.
func (s MemberState) isSuspendedExternally() bool {
	return s.isSuspended() && !s.Observed.SuspendedByRollcall
}

// indexOf returns the index of the member of a workload, and -1 if there is none. The only member of a
// gang of one workload has any name.
func (m Members) indexOf(workload string) int {
	return slices.IndexFunc(m, func(s MemberState) bool { return s.WorkloadName == workload || len(m) == 1 })
}

// RestoreCompleted returns the members with those that completed and were deleted since, as a Job with a
// time to live is. completed contains finish times by workload.
func (m Members) RestoreCompleted(completed map[string]time.Time) Members {
	out := slices.Clone(m)
	for i := range out {
		s := &out[i]
		if finishTime, ok := completed[s.WorkloadName]; ok && !s.Exists {
			s.Observed = Observation{Complete: true, FinishTime: finishTime, Size: s.Size, SucceededPods: s.MinReady}
		}
	}
	return out
}

// RestoreRules returns the gang of a member with the restart rules of the gang: those of the member with rank 0, which
// the state contains after its Job was deleted.
func (s State) RestoreRules(g gang.Gang) gang.Gang {
	if s.RestartRules != nil && g.RankOffset > 0 {
		g.RestartRules = *s.RestartRules
	}
	return g
}

// CompletedJobs returns the finish times of the complete Jobs of a gang of several workloads; nil if there
// are none.
func (m Members) CompletedJobs() map[string]time.Time {
	var out map[string]time.Time
	for _, s := range m {
		if !s.Observed.Complete || s.Observed.IsStatefulSet || len(m) == 1 {
			continue
		}
		if out == nil {
			out = map[string]time.Time{}
		}
		out[s.WorkloadName] = s.Observed.FinishTime.UTC()
	}
	return out
}

// latestStart returns the latest of a time and of the start times of the unfinished Jobs. It returns false
// if a Job is not suspended and has not started.
func (m Members) latestStart(start time.Time) (time.Time, bool) {
	for _, s := range m {
		if !s.Exists || s.Observed.IsStatefulSet || s.Observed.Complete {
			continue
		}
		if s.Observed.StartTime.IsZero() {
			return time.Time{}, false
		}
		if s.Observed.StartTime.After(start) {
			start = s.Observed.StartTime
		}
	}
	return start, true
}

// resumeTime returns when the last member was resumed for the current attempt. That is the start of the last Job if a
// pass observed it later, for example because no manager ran. The status of a StatefulSet has no such time, and a
// complete Job that was deleted may have been resumed last.
func (s State) resumeTime(members Members) time.Time {
	var start time.Time
	for _, m := range members {
		switch {
		case !m.Exists && !m.Observed.Complete:
			continue
		case m.Observed.StartTime.IsZero():
			return s.AttemptStartTime
		case m.Observed.StartTime.After(start):
			start = m.Observed.StartTime
		}
	}
	if start.IsZero() || s.AttemptStartTime.Before(start) {
		return s.AttemptStartTime
	}
	return start
}

// areJobsResumedApart reports whether somebody else than Rollcall resumed the Jobs of a gang of several Jobs. Their
// start times show which was the last.
func (s State) areJobsResumedApart(members Members) bool {
	isStatefulSet := func(m MemberState) bool { return m.Observed.IsStatefulSet }
	return !s.FollowsRestart && len(members) > 1 && !slices.ContainsFunc(members, isStatefulSet)
}

// isDeleted reports whether the member completed and was deleted since.
func (s MemberState) isDeleted() bool { return !s.Exists && s.Observed.Complete }

// Missing returns the members that do not exist, except those that completed before they were deleted.
func (m Members) Missing() []gang.Member {
	var out []gang.Member
	for _, s := range m {
		if !s.Exists && !s.isDeleted() {
			out = append(out, s.Member)
		}
	}
	return out
}

// AnySuspended reports whether anybody suspended a member. A member of size 0 counts as suspended.
func (m Members) AnySuspended() bool { return slices.ContainsFunc(m, MemberState.isSuspended) }

// anySuspendedExternally reports whether somebody else than Rollcall suspended a member.
func (m Members) anySuspendedExternally() bool {
	return slices.ContainsFunc(m, MemberState.isSuspendedExternally)
}

// AnySuspendedByUser reports whether a user suspended a member. A queue does not count.
func (m Members) AnySuspendedByUser() bool {
	return slices.ContainsFunc(m, func(s MemberState) bool {
		return s.isSuspendedExternally() && !s.Observed.ManagedByQueue
	})
}

// anyAwaitingQueue reports whether Rollcall suspended a member that its queue has to resume.
func (m Members) anyAwaitingQueue() bool {
	return slices.ContainsFunc(m, func(s MemberState) bool {
		return s.Exists && s.Observed.SuspendedByRollcall && s.Observed.ManagedByQueue
	})
}

// AllSuspended reports whether all members are suspended and their controllers have observed it.
func (m Members) AllSuspended() bool {
	return m.allMatch(func(s MemberState) bool { return s.isDeleted() || s.Exists && s.Observed.SuspensionObserved })
}

// uids returns the UIDs of the existing members; nil if none has a UID.
func (m Members) uids() []types.UID {
	var out []types.UID
	for _, s := range m {
		if s.Exists && s.Observed.UID != "" {
			out = append(out, s.Observed.UID)
		}
	}
	return out
}

// FailedPods returns the number of failed or deleted pods that all workloads count.
func (m Members) FailedPods() int32 {
	var n int32
	for _, s := range m {
		n += s.Observed.FailedPods
	}
	return n
}

// anyFinishing reports whether a member is about to finish the gang; see [Observation.Finishing].
func (m Members) anyFinishing() bool {
	return slices.ContainsFunc(m, func(s MemberState) bool { return s.Exists && s.Observed.Finishing })
}

// anyJobComplete reports whether a Job of the gang is complete.
func (m Members) anyJobComplete() bool {
	return slices.ContainsFunc(m, func(s MemberState) bool {
		return s.Observed.Complete && !s.Observed.IsStatefulSet
	})
}

// rankCounts returns the number of ranks, and the number of ranks that must be ready.
func (m Members) rankCounts() (size, minReady int32) {
	for _, s := range m {
		size, minReady = size+s.Observed.Size, minReady+s.MinReady
	}
	return size, minReady
}

func (m Members) allMatch(matches func(MemberState) bool) bool {
	return !slices.ContainsFunc(m, func(s MemberState) bool { return !matches(s) })
}

package roster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// Candidate is an existing workload with the name of a multi-workload gang. It may be a member of the
// gang, a remainder of an earlier run, or a workload of somebody else.
type Candidate struct {
	// MemberSpec is the gang as the workload describes it.
	MemberSpec
	// UID and CreationTime identify the object.
	UID          types.UID
	CreationTime time.Time
	// FinishTime is when the workload finished; zero if it has not. See [FinishTime].
	FinishTime time.Time
	// Active is true if neither the workload nor the gang in its status has finished.
	Active bool
	// Recorded contains the UIDs of the gang's members as the status of the workload records them;
	// empty without a status.
	Recorded []types.UID
}

// newCandidate returns the candidate of a workload.
func newCandidate(m Member) Candidate {
	status, finishTime := lifecycle.ReadStatus(m.Workload), FinishTime(m.Workload)
	return Candidate{
		MemberSpec:   m.Spec(),
		UID:          m.Meta().UID,
		CreationTime: m.Meta().CreationTimestamp.Time,
		FinishTime:   finishTime,
		Active:       finishTime.IsZero() && !status.Phase.Terminal(),
		Recorded:     status.MemberUIDs,
	}
}

// FinishTime returns when a Job finished: when it completed or failed, or when Rollcall removed its
// pods because its gang had finished, whichever was first. A Job without pods can still complete when its last
// pod has terminated, and a Job with a successPolicy does not complete.
// FinishTime returns the zero value for a Job that has not finished, and for a StatefulSet, which
// never finishes: it runs again when it is scaled up.
func FinishTime(w gang.Workload) time.Time {
	if w.Job == nil {
		return time.Time{}
	}
	var finished time.Time
	if status := lifecycle.ReadStatus(w); status.Phase.Terminal() && w.Ranks() == 0 {
		finished = status.LastTransitionTime
	}
	observed := lifecycle.Observe(w)
	if observed.HasResult() && (finished.IsZero() || observed.FinishTime.Before(finished)) {
		finished = observed.FinishTime
	}
	return finished
}

// Identify determines which candidates are the gang, as a roster of their indexes. The candidates are in the order of
// their ranks, and at least one is required. docs/adr/0004-identity.md gives the reasons of these rules:
//
//  1. A workload that finished before another candidate was created belongs to an earlier run, unless
//     an active member records it.
//  2. The UIDs in the status of the gang are its members. Another workload joins the gang only if it
//     has the place of a missing member and the same settings.
//  3. Before a status is written, the owners of the Service of the gang are its members in the same way.
//     If none of the candidates is an owner, all are members.
//  4. Members with different settings, and two workloads in one place, are a conflict.
//
// serviceOwners are the UIDs of the owners of the Service; empty if they are not known.
//
// The cost is linear in the number of candidates, because anybody can create workloads.
func Identify(candidates []Candidate, serviceOwners []types.UID) Roster[int] {
	var id Roster[int]
	isOfEarlierRun := newEarlierRunFilter(candidates)
	var current []int
	for i := range candidates {
		if isOfEarlierRun(candidates[i]) {
			id.EarlierRun = append(id.EarlierRun, i)
		} else {
			current = append(current, i)
		}
	}
	recorded := serviceOwners
	if source := findStateSource(candidates, current); source >= 0 {
		id.StateSource, recorded = &source, candidates[source].Recorded
	}
	isKnown := sets.New(recorded...)
	known := slices.DeleteFunc(slices.Clone(current), func(i int) bool { return !isKnown.Has(candidates[i].UID) })
	if len(known) == 0 {
		known = current
		for _, i := range current {
			isKnown.Insert(candidates[i].UID)
		}
	}
	isStranger := newStrangerFilter(candidates, known)
	var specs []MemberSpec
	for _, i := range current {
		if c := candidates[i]; isKnown.Has(c.UID) || !isStranger(c) {
			id.Members, specs = append(id.Members, i), append(specs, c.MemberSpec)
		} else {
			id.Strangers = append(id.Strangers, i)
		}
	}
	id.Conflicts = FindConflicts(specs)
	return id
}

// newEarlierRunFilter returns a function that reports whether a candidate finished before another
// candidate was created. The times have a resolution of one second, so a workload that was created in
// the same second belongs to the same run. A member that finished early belongs to the run of the
// members that are still active, whatever is created afterward. The clocks of the API server and of the
// controller that writes the finish time can differ, so a workload is never earlier than itself.
func newEarlierRunFilter(candidates []Candidate) func(Candidate) bool {
	recordedByActive := sets.Set[types.UID]{}
	var lastCreation time.Time
	for _, c := range candidates {
		if c.CreationTime.After(lastCreation) {
			lastCreation = c.CreationTime
		}
		if c.Active {
			recordedByActive.Insert(c.Recorded...)
		}
	}
	return func(c Candidate) bool {
		return !c.FinishTime.IsZero() && !recordedByActive.Has(c.UID) &&
			lastCreation.After(c.FinishTime) && lastCreation.After(c.CreationTime)
	}
}

// findStateSource returns the index of the candidate whose status is the state of the gang; -1 if there
// is none. Rollcall writes the members one after the other, in the order of their ranks. After a crash
// in between, the status that records most of the existing workloads is the newest. If several record
// the same number, the first is.
func findStateSource(candidates []Candidate, current []int) int {
	exists := sets.Set[types.UID]{}
	for _, i := range current {
		exists.Insert(candidates[i].UID)
	}
	source, most := -1, 0
	for _, i := range current {
		recorded := 0
		for _, uid := range candidates[i].Recorded {
			if exists.Has(uid) {
				recorded++
			}
		}
		if recorded > most {
			source, most = i, recorded
		}
	}
	return source
}

// newStrangerFilter returns a function that reports whether the known members leave no place for a
// candidate: its place is taken, or none of the members expects a workload of its name. If no known
// member can be parsed, their expectations are unknown, and nobody is a stranger unless its place is
// taken.
func newStrangerFilter(candidates []Candidate, known []int) func(Candidate) bool {
	isTaken, isExpected, anyParsed := map[string]bool{}, map[string]bool{}, false
	for _, i := range known {
		c := candidates[i]
		isTaken[c.WorkloadName] = true
		if c.Problem != "" {
			continue
		}
		anyParsed = true
		for _, m := range c.Gang.Members {
			isExpected[m.WorkloadName] = true
		}
	}
	return func(c Candidate) bool {
		return isTaken[c.WorkloadName] || anyParsed && !isExpected[c.WorkloadName]
	}
}

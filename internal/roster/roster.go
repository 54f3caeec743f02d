package roster

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Roster lists the workloads with the name of a gang of several workloads. T is what the caller knows of a
// workload. All lists are in the order of the ranks.
type Roster[T any] struct {
	// Members, EarlierRun, Strangers and Conflicts are those of [Identity].
	Members, EarlierRun, Strangers []T
	Conflicts                      []string
	// StateSource is the member whose status is the state of the gang; nil if no member has a status.
	StateSource *T
}

// New returns the roster of workloads with the same name of a gang. It sorts workloads. member returns a
// workload as this package needs it. serviceOwners is an argument of [Identify].
func New[T any](workloads []T, member func(T) Member, serviceOwners []types.UID) Roster[T] {
	slices.SortFunc(workloads, func(a, b T) int { return CompareRanks(member(a), member(b)) })
	var candidates []Candidate
	for _, w := range workloads {
		candidates = append(candidates, newCandidate(member(w)))
	}
	id := Identify(candidates, serviceOwners)
	list := func(indexes []int) []T {
		var out []T
		for _, i := range indexes {
			out = append(out, workloads[i])
		}
		return out
	}
	r := Roster[T]{
		Members: list(id.Members), EarlierRun: list(id.EarlierRun), Strangers: list(id.Strangers),
		Conflicts: id.Conflicts,
	}
	if id.StateSource >= 0 {
		r.StateSource = &workloads[id.StateSource]
	}
	return r
}

package roster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// Gang is a gang as its existing workloads describe it.
type Gang struct {
	// Namespace and Name are those of [Group].
	Namespace, Name string
	Roster[Member]
}

// ReadGangs groups workloads into gangs, parses them, and selects the members of each gang. It does not read the
// owners of Services: with a stranger, a status exists soon. If no workload of a gang is valid, its members are not
// known, and all workloads with its name are in Members.
func ReadGangs(engine *injectors.Engine, workloads []gang.Workload) []Gang {
	var out []Gang
	for _, group := range GroupWorkloads(workloads, engine.Frameworks()) {
		var members []Member
		for _, w := range group.Workloads {
			members = append(members, ReadMember(engine, w))
		}
		g := Gang{Namespace: group.Namespace, Name: group.Name, Roster: Roster[Member]{Members: members}}
		isValid := func(m Member) bool { return m.IsInjected() && m.Gang() != nil }
		if group.MultiWorkload && slices.ContainsFunc(members, isValid) {
			g.Roster = New(members, func(m Member) Member { return m }, nil)
		}
		slices.SortFunc(g.Members, compareRanks)
		out = append(out, g)
	}
	return out
}

// StatusSource returns the workload whose status is the state of the gang. The controller writes the status to all
// members, so the first injected workload has it if the roster names none.
func (g Gang) StatusSource() Member {
	if g.StateSource != nil {
		return *g.StateSource
	}
	return g.Members[max(0, slices.IndexFunc(g.Members, Member.IsInjected))]
}

// Roster lists the workloads with the name of a gang of several workloads. T is what the caller knows of a
// workload. All lists are in the order of the ranks.
type Roster[T any] struct {
	// Members are the workloads over which Rollcall decides.
	Members []T
	// EarlierRun are workloads of an earlier run.
	EarlierRun []T
	// Strangers are workloads that have the name of the gang, but no place in it.
	Strangers []T
	// Conflicts describes why the members do not form a gang; see [FindConflicts]. If it is not
	// empty, Members contains all workloads that may be members, and nobody may act on any of them.
	Conflicts []string
	// StateSource is the member whose status is the state of the gang; nil if no member has a status.
	StateSource *T
}

// New returns the roster of workloads with the same name of a gang. It sorts workloads. member returns a
// workload as this package needs it. serviceOwners is an argument of [Identify].
func New[T any](workloads []T, member func(T) Member, serviceOwners []types.UID) Roster[T] {
	slices.SortFunc(workloads, func(a, b T) int { return compareRanks(member(a), member(b)) })
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
	if id.StateSource != nil {
		r.StateSource = &workloads[*id.StateSource]
	}
	return r
}

// Member is an existing workload together with the gang that it describes.
type Member struct {
	gang.Workload
	// Result contains the gang and the objects that the gang needs. It is nil if the workload was not
	// parsed, or if Err is set.
	Result *injectors.Result
	// Err is the reason why the workload is not valid. Such a workload was admitted without Rollcall, by
	// a release with other rules, or a user edited it.
	Err error
}

// ReadMember parses a workload with the rules of admission.
func ReadMember(engine *injectors.Engine, w gang.Workload) Member {
	result, err := engine.Describe(w)
	if err != nil {
		return Member{Workload: w, Err: err}
	}
	return Member{Workload: w, Result: &result}
}

// Gang returns the gang that the workload describes; nil if it could not be parsed.
func (m Member) Gang() *gang.Gang {
	if m.Result == nil {
		return nil
	}
	return &m.Result.Gang
}

// RankOffset returns the rank of the workload's first pod. If the workload could not be parsed, it is the
// offset that admission recorded; 0 if there is none.
func (m Member) RankOffset() int32 {
	if g := m.Gang(); g != nil {
		return g.RankOffset
	}
	offset, err := strconv.ParseInt(m.Template().Labels[gang.LabelRankOffset], 10, 32)
	if err != nil {
		return 0
	}
	return int32(offset)
}

// Spec returns the settings of the gang in the workload, or the reason why there are none.
func (m Member) Spec() MemberSpec {
	spec := MemberSpec{Kind: m.Kind(), WorkloadName: m.Meta().Name}
	switch {
	case !m.IsInjected():
		spec.Problem = "was admitted without Rollcall; delete and recreate it"
	case m.Err != nil:
		spec.Problem = "cannot be parsed: " + strings.Join(injectors.DenialCauses(m.Err), "; ")
	case m.Result != nil:
		spec.Gang = m.Result.Gang
	}
	return spec
}

// compareRanks orders the workloads of a gang by rank. Workloads with the same rank, which only occur by
// mistake, are ordered by name and kind.
func compareRanks(a, b Member) int {
	return cmp.Or(
		cmp.Compare(a.RankOffset(), b.RankOffset()),
		cmp.Compare(a.Meta().Name, b.Meta().Name),
		cmp.Compare(a.Kind(), b.Kind()),
	)
}

// Group is a gang as the set of its existing workloads. Members that do not exist yet are only in
// the annotation [gang.AnnotationRoles] of the others.
type Group struct {
	// Namespace and Name identify the gang. Several single-workload gangs can share a name.
	Namespace, Name string
	// MultiWorkload is true if at least one workload has the annotation [gang.AnnotationRoles].
	MultiWorkload bool
	// Workloads has at least one element. The order is that of the input of [GroupWorkloads].
	Workloads []gang.Workload
}

// GroupWorkloads returns the gangs that the workloads form, ordered by their first workload.
// Workloads without [gang.LabelFramework] and workloads that opted out are not in any gang.
//
// Workloads with the same namespace and gang name are one gang if at least one of them has roles.
// Members of that gang are the workloads for which [gang.IsMultiWorkloadMember] is true. Every other
// workload is a gang of its own, even if the name is the same, as for the Jobs of a CronJob.
func GroupWorkloads(workloads []gang.Workload, frameworks gang.Frameworks) []Group {
	type key struct{ namespace, name string }
	keyOf := func(w gang.Workload) key { return key{w.Meta().Namespace, gang.ResolveName(w, frameworks)} }
	managed := slices.DeleteFunc(slices.Clone(workloads), func(w gang.Workload) bool {
		return !w.HasFrameworkLabel() || w.OptedOut()
	})
	multiWorkload := map[key]bool{}
	for _, w := range managed {
		if w.HasRoles() {
			multiWorkload[keyOf(w)] = true
		}
	}
	var groups []Group
	groupIndex := map[key]int{}
	for _, w := range managed {
		k := keyOf(w)
		isMember := multiWorkload[k] && gang.IsMultiWorkloadMember(w, frameworks)
		if i, exists := groupIndex[k]; exists && isMember {
			groups[i].Workloads = append(groups[i].Workloads, w)
			continue
		}
		if isMember {
			groupIndex[k] = len(groups)
		}
		groups = append(groups, Group{
			Namespace: k.namespace, Name: k.name, MultiWorkload: isMember, Workloads: []gang.Workload{w},
		})
	}
	return groups
}

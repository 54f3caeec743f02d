package roster

import (
	"cmp"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

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

package inspect

import (
	"cmp"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
)

// identifyMembers leaves only the members in the group of a multi-workload gang, as the controller
// does: workloads of an earlier run and strangers become leftOut. A group without a valid workload
// does not change, because its members are not known.
func (g *workloadGroup) identifyMembers() {
	if !slices.ContainsFunc(g.workloads, func(w workload) bool { return w.IsInjected() && w.parsedGang != nil }) {
		return
	}
	all := g.workloads
	var candidates []lifecycle.Candidate
	for _, w := range all {
		candidates = append(candidates, lifecycle.NewCandidate(w.Workload, w.memberSpec()))
	}
	id := lifecycle.Identify(candidates, nil) // reads no Services; with a stranger, a status exists soon
	g.workloads = nil
	for _, i := range id.Members {
		g.workloads = append(g.workloads, all[i])
	}
	if id.StateSource >= 0 {
		g.stateSource = &all[id.StateSource]
	}
	for _, i := range id.EarlierRun {
		g.leaveOut(all[i], "finished before other workloads of the gang were created and belongs to an earlier run")
	}
	for _, i := range id.Strangers {
		g.leaveOut(all[i], "has the name of the gang, but is not a member")
	}
}

func (g *workloadGroup) leaveOut(w workload, reason string) {
	g.leftOut = append(g.leftOut, w)
	g.warnings = append(g.warnings, w.memberSpec().String()+" "+reason)
}

// memberSpec returns the settings of the gang in the workload, or the reason why there are none.
func (w workload) memberSpec() gang.MemberSpec {
	spec := gang.MemberSpec{Kind: w.Kind(), WorkloadName: w.Meta().Name}
	switch {
	case !w.IsInjected():
		spec.Problem = "was admitted without Rollcall"
	case w.parsedGang == nil:
		spec.Problem = "cannot be parsed: " + strings.Join(injectors.DenialCauses(w.parseErr), "; ")
	default:
		spec.Gang = *w.parsedGang
	}
	return spec
}

// statusSource returns the workload whose status is the state of the gang. The controller writes the
// status to all members, so the first injected workload has it if the identity names none.
func (g workloadGroup) statusSource() workload {
	if g.stateSource != nil {
		return *g.stateSource
	}
	return g.workloads[max(0, slices.IndexFunc(g.workloads, workload.IsInjected))]
}

// hasWorkload reports whether a workload of the name has the name of the gang, as a member or not.
func (g workloadGroup) hasWorkload(name string) bool {
	return slices.ContainsFunc(slices.Concat(g.workloads, g.leftOut), func(w workload) bool {
		return w.Meta().Name == name
	})
}

// compareRanks orders workloads by rank, then by name and kind.
func compareRanks(a, b workload) int {
	return cmp.Or(
		cmp.Compare(a.rankOffset(), b.rankOffset()),
		cmp.Compare(a.Meta().Name, b.Meta().Name),
		cmp.Compare(a.Kind(), b.Kind()),
	)
}

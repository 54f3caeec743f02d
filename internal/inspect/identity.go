package inspect

import (
	"slices"

	"rollcall.training/internal/roster"
)

// identifyMembers leaves only the members in the group of a multi-workload gang, as the controller
// does: workloads of an earlier run and strangers become leftOut. A group without a valid workload
// does not change, because its members are not known.
func (g *workloadGroup) identifyMembers() {
	if !slices.ContainsFunc(g.workloads, func(w workload) bool { return w.IsInjected() && w.Gang() != nil }) {
		return
	}
	// Without the owners of the Service, which status does not read: with a stranger, a state exists soon.
	list := roster.New(g.workloads, func(w workload) roster.Member { return w.Member }, nil)
	g.workloads, g.stateSource = list.Members, list.StateSource
	for _, w := range list.EarlierRun {
		g.leaveOut(w, "finished before other workloads of the gang were created and belongs to an earlier run")
	}
	for _, w := range list.Strangers {
		g.leaveOut(w, "has the name of the gang, but is not a member")
	}
}

func (g *workloadGroup) leaveOut(w workload, reason string) {
	g.leftOut = append(g.leftOut, w)
	g.warnings = append(g.warnings, w.Spec().String()+" "+reason)
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

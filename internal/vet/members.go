package vet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

func memberChecks() []Check {
	return []Check{
		{
			Code: CodeMemberConflict, Severity: Error, checkGang: checkMemberConflict,
			Title: "The workloads of a gang have conflicting settings",
			Why: "The webhook admits each workload separately, and derives ranks and addresses from that workload only. " +
				"A gang with a conflict stays Pending with the reason " + string(gang.ReasonMemberConflict) +
				" and the same message.",
			Fix: "Use the same value on every workload of the gang.",
		},
		{
			Code: CodeMembersMissing, Severity: Info, checkGang: checkMembersMissing,
			Title: "The input does not contain a workload that the annotation roles names",
			Why: "The gang does not start until all of its workloads exist. The missing workload may be in another file. " +
				"If you give all files of a gang at once, vet also compares their workloads.",
			Fix: "Add the workload, or give its file to vet too.",
		},
		{
			Code: CodeGangNameShared, Severity: Warning, checkGang: checkGangNameShared,
			Title: "Two gangs have the same name",
			Why: "Both gangs use the same headless Service. `rollcall status` and label selectors return the pods of both. " +
				"If the workloads are meant to be one gang, the annotation roles is missing, and each of them has a rank 0.",
			Fix: "Give one gang a different name with the label `" + gang.LabelGang + "`. " +
				"Or combine the workloads into one gang with the annotation `" + gang.AnnotationRoles + "`.",
		},
	}
}

// isFirstMember reports whether w has the lowest rank of the workloads of its gang. Checks that
// concern a complete gang report on this workload, so that they report once.
func (in *input) isFirstMember(w *labeledWorkload) bool {
	for _, other := range in.gangMembers(w) {
		if other != w && other.gang != nil && compareMembers(other, w) < 0 {
			return false
		}
	}
	return true
}

// compareMembers orders the workloads of a gang by rank. Workloads with the same rank offset, which
// only occur by mistake, are ordered by name and position in the input.
func compareMembers(a, b *labeledWorkload) int {
	return cmp.Or(
		cmp.Compare(a.gang.RankOffset, b.gang.RankOffset),
		cmp.Compare(a.displayName(), b.displayName()),
		cmp.Compare(a.Document.Source, b.Document.Source),
		cmp.Compare(a.Document.Number, b.Document.Number),
	)
}

func checkMemberConflict(in *input, w *labeledWorkload) []issue {
	if !w.group.MultiWorkload || !in.isFirstMember(w) {
		return nil
	}
	var specs []gang.MemberSpec
	for _, m := range in.gangMembers(w) {
		spec := gang.MemberSpec{Kind: m.workload.Kind(), WorkloadName: m.target.Name}
		switch {
		case m.gang == nil && m.denial != nil:
			spec.Problem = "would be rejected: " + strings.Join(injectors.DenialCauses(m.denial), "; ")
		case m.gang != nil:
			spec.Gang = *m.gang
		}
		specs = append(specs, spec)
	}
	for _, missing := range in.missingMembers(w) {
		if o := in.findUnlabeledMember(w, missing); o != nil && o.workload.OptedOut() {
			specs = append(specs, gang.MemberSpec{
				Kind: o.workload.Kind(), WorkloadName: o.Name,
				Problem: fmt.Sprintf("has the label %s: \"false\"; remove the label", gang.LabelInject),
			})
		}
	}
	var issues []issue
	for _, conflict := range gang.FindConflicts(specs) {
		issues = append(issues, issue{field: "metadata", message: conflict})
	}
	return issues
}

// missingMembers returns the members of the gang that the input does not contain as labeled
// workloads. A labeled workload that cannot be decoded is not missing, because it has its own
// finding.
func (in *input) missingMembers(w *labeledWorkload) []gang.Member {
	return slices.DeleteFunc(slices.Clone(w.gang.Members), func(want gang.Member) bool {
		for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
			o := in.findObject(string(kind), w.namespace, want.WorkloadName)
			if o != nil && o.decodeError != nil && o.labeled != nil {
				return true
			}
		}
		return slices.ContainsFunc(in.gangMembers(w), func(m *labeledWorkload) bool {
			return m.target.Name == want.WorkloadName
		})
	})
}

// findUnlabeledMember returns the workload that has the name of a member, but either no framework
// label or the label that opts out of injection. It returns nil if the input contains none.
func (in *input) findUnlabeledMember(w *labeledWorkload, want gang.Member) *inputObject {
	for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
		o := in.findObject(string(kind), w.namespace, want.WorkloadName)
		if o != nil && o.workload != nil && o.labeled == nil {
			return o
		}
	}
	return nil
}

func checkMembersMissing(in *input, w *labeledWorkload) []issue {
	if !w.workload.HasRoles() || !in.isFirstMember(w) {
		return nil
	}
	const field = "metadata.annotations[" + gang.AnnotationRoles + "]"
	var issues []issue
	for _, missing := range in.missingMembers(w) {
		switch o := in.findUnlabeledMember(w, missing); {
		case o == nil:
			issues = append(issues, issue{
				field: field,
				message: fmt.Sprintf("names %s (role %s, pods: %d), which is not in the input",
					missing.WorkloadName, missing.Role, missing.Size),
				fix: "add the workload, or give its file to vet too",
			})
		case !o.workload.OptedOut(): // Otherwise checkMemberConflict reports it.
			issues = append(issues, issue{
				field:   field,
				message: fmt.Sprintf("names the %s %s, which does not have the label %s", o.Kind, o.Name, gang.LabelFramework),
				fix:     "add the label to it",
			})
		}
	}
	return issues
}

func checkGangNameShared(in *input, w *labeledWorkload) []issue {
	if w.group.MultiWorkload {
		return nil // checkMemberConflict compares its workloads.
	}
	const maxNames = 3 // in the message
	var others []string
	for _, m := range in.labeledByGangName[gangNameKey(w.group.Group)] {
		if len(others) < maxNames && m.displayName() != w.displayName() {
			others = append(others, "the "+m.Kind+" "+m.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	field := "metadata.name"
	if _, ok := w.target.Labels[gang.LabelGang]; ok {
		field = "metadata.labels[" + gang.LabelGang + "]"
	}
	slices.Sort(others)
	return []issue{{
		field: field,
		message: fmt.Sprintf("the gang name %s is also the name of the gang of %s, so each of them has its own rank 0",
			w.gang.Name, strings.Join(slices.Compact(others), ", ")),
		fix: fmt.Sprintf("set a different name with the label %s, or combine them into one gang with the annotation %s",
			gang.LabelGang, gang.AnnotationRoles),
	}}
}

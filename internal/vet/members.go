package vet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/roster"
)

// isFirstMember reports whether w has the lowest rank of the workloads of its gang. Checks that
// concern a complete gang report on this workload, so that they report once.
func (w *labeledWorkload) isFirstMember() bool {
	for _, other := range w.group.members {
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

func checkMemberConflict(r *reporter, w *labeledWorkload) {
	if !w.group.MultiWorkload || !w.isFirstMember() {
		return
	}
	var specs []roster.MemberSpec
	for _, m := range w.group.members {
		spec := roster.MemberSpec{Kind: m.workload.Kind(), WorkloadName: m.target.Name}
		switch {
		case m.gang == nil && m.denial != nil:
			spec.Problem = "would be rejected: " + strings.Join(injectors.DenialCauses(m.denial), "; ")
		case m.gang != nil:
			spec.Gang = *m.gang
		}
		specs = append(specs, spec)
	}
	for _, missing := range r.missingMembers(w) {
		if o := r.findUnlabeledMember(w, missing); o != nil && o.workload.OptedOut() {
			specs = append(specs, roster.MemberSpec{
				Kind: o.workload.Kind(), WorkloadName: o.Name,
				Problem: fmt.Sprintf("has the label %s: \"false\"; remove the label", gang.LabelInject),
			})
		}
	}
	for _, conflict := range roster.FindConflicts(specs) {
		r.add("metadata", "", "%s", conflict)
	}
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
		return slices.ContainsFunc(w.group.members, func(m *labeledWorkload) bool {
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

func checkMembersMissing(r *reporter, w *labeledWorkload) {
	if !w.workload.HasRoles() || !w.isFirstMember() {
		return
	}
	const field = "metadata.annotations[" + gang.AnnotationRoles + "]"
	for _, missing := range r.missingMembers(w) {
		switch o := r.findUnlabeledMember(w, missing); {
		case o == nil:
			r.add(field, "add the workload, or give its file to vet too",
				"names %s (role %s, pods: %d), which is not in the input", missing.WorkloadName, missing.Role, missing.Size)
		case !o.workload.OptedOut(): // Otherwise checkMemberConflict reports it.
			r.add(field, "add the label to it",
				"names the %s %s, which does not have the label %s", o.Kind, o.Name, gang.LabelFramework)
		}
	}
}

func checkGangNameShared(r *reporter, w *labeledWorkload) {
	if w.group.MultiWorkload {
		return // checkMemberConflict compares its workloads.
	}
	const maxNames = 3 // in the message
	var others []string
	for _, m := range r.labeledByGangName[gangNameKey(w.group.Group)] {
		if len(others) < maxNames && m.displayName() != w.displayName() {
			others = append(others, "the "+m.Kind+" "+m.Name)
		}
	}
	if len(others) == 0 {
		return
	}
	field := "metadata.name"
	if _, ok := w.target.Labels[gang.LabelGang]; ok {
		field = "metadata.labels[" + gang.LabelGang + "]"
	}
	slices.Sort(others)
	r.add(field,
		"set a different name with the label "+gang.LabelGang+
			", or combine them into one gang with the annotation "+gang.AnnotationRoles,
		"the gang name %s is also the name of the gang of %s, so each of them has its own rank 0",
		w.gang.Name, strings.Join(slices.Compact(others), ", "))
}

// gangService returns the Service of the input with the name of the Service of the gang, and why it
// cannot be used. It returns nil if the input contains none.
func (in *input) gangService(w *labeledWorkload) (o *inputObject, mismatch string) {
	o = in.findObject("Service", w.namespace, w.gang.ServiceName)
	if o == nil || w.denial != nil {
		return nil, ""
	}
	var service corev1.Service
	if o.APIVersion != "v1" || o.Decode(&service) != nil {
		return nil, ""
	}
	return o, gang.ServiceMismatch(&service, w.withServerLabels(), w.gang.PublishedRanks)
}

// withServerLabels returns the admitted workload with the labels that the API server adds to the
// pod template of each Job (pkg/registry/batch/job/strategy.go of Kubernetes).
func (w *labeledWorkload) withServerLabels() gang.Workload {
	if w.admitted.Job == nil || w.isCronJob { // A CronJob adds a time to the name.
		return w.admitted
	}
	defaulted := w.admitted.DeepCopy()
	template := defaulted.Template()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for _, name := range []string{batchv1.JobNameLabel, "job-name"} {
		if _, ok := template.Labels[name]; !ok {
			template.Labels[name] = w.target.Name
		}
	}
	return defaulted
}

func checkServiceConflict(r *reporter, w *labeledWorkload) {
	o, mismatch := r.gangService(w)
	if mismatch == "" {
		return
	}
	r.add("metadata.name",
		"remove the Service, because Rollcall creates it, or rename the gang with the label "+gang.LabelGang,
		"the Service %s (%s, line %d) has the name of the Service of the gang, but %s",
		o.Name, o.Document.Source, o.Line("metadata.name"), mismatch)
}

func checkServiceNotNeeded(r *reporter, w *labeledWorkload) {
	o, mismatch := r.gangService(w)
	if o == nil || mismatch != "" || !w.isFirstMember() {
		return
	}
	if _, isPrintedByInject := o.Labels[gang.LabelGang]; isPrintedByInject {
		return
	}
	r.add("metadata.name", "remove the Service, unless you also use it without Rollcall",
		"the Service %s (%s, line %d) is not needed, because Rollcall creates one for each gang",
		o.Name, o.Document.Source, o.Line("metadata.name"))
}

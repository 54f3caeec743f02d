package vet

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

func ofMembers() []Check {
	return []Check{
		{
			Code: CodeMembersDisagree, Severity: Error, gang: membersDisagree,
			Title: "The workloads of one gang contradict each other",
			Why:   "Each is admitted by itself and given ranks and addresses by its own text. The gang would stay Pending with the reason " + string(gang.ReasonMembersDisagree) + ", in the same words.",
			Fix:   "Make what the message names the same on each workload of the gang.",
		},
		{
			Code: CodeMembersMissing, Severity: Advice, gang: membersMissing,
			Title: "A workload that the annotation roles names is not in the input",
			Why:   "The gang waits for it. It may be in another file; give all files of a gang at once, and they are compared too.",
			Fix:   "Add the workload, or name its file as well.",
		},
		{
			Code: CodeGangNameShared, Severity: Warning, gang: gangNameShared,
			Title: "Two gangs have one name",
			Why:   "They share a Service, and whoever asks for the gang by its name, such as `rollcall status` or a selector, gets the pods of both. Workloads that were meant to be one gang lack the annotation roles: as they stand, each has a rank 0.",
			Fix:   "Name them differently with the label `" + gang.LabelGang + "`, or make them one gang with the annotation `" + gang.AnnotationRoles + "`.",
		},
	}
}

// first reports whether m is the member at which things about the whole gang are said:
// the one with the lowest rank.
func (in *input) first(m *member) bool {
	for _, o := range in.together(m) {
		if o == m {
			continue
		}
		if o.gang != nil && (o.gang.Offset < m.gang.Offset || o.gang.Offset == m.gang.Offset && o.before(m)) {
			return false
		}
	}
	return true
}

// before orders members of the same rank, which only a mistake makes.
func (m *member) before(o *member) bool {
	return m.name() < o.name() || m.name() == o.name() && (m.Document.Source < o.Document.Source ||
		m.Document.Source == o.Document.Source && m.Document.Number < o.Document.Number)
}

func membersDisagree(in *input, m *member) []remark {
	all := in.together(m)
	if !slices.ContainsFunc(all, func(o *member) bool { return o.written.Several() }) || !in.first(m) {
		return nil
	}
	var voices []gang.Voice
	for _, o := range all {
		v := gang.Voice{Kind: o.written.Kind(), Workload: o.read.Name}
		switch {
		case o.gang == nil && o.denial != nil:
			v.Silent = "would be refused: " + strings.Join(injectors.Causes(o.denial), "; ")
		case o.gang != nil:
			v.Gang = *o.gang
		}
		voices = append(voices, v)
	}
	for _, missing := range in.missing(m) {
		if w := in.stray(m, missing); w != nil && w.written.OptedOut() {
			voices = append(voices, gang.Voice{Kind: w.written.Kind(), Workload: w.Name,
				Silent: fmt.Sprintf("has the label %s: \"false\"; take it away", gang.LabelInject)})
		}
	}
	var out []remark
	for _, said := range gang.Disagreements(voices) {
		out = append(out, remark{field: "metadata", message: said})
	}
	return out
}

// missing are the members that the gang should have, and that the input has not.
func (in *input) missing(m *member) []gang.Member {
	return slices.DeleteFunc(slices.Clone(m.gang.Members), func(want gang.Member) bool {
		for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
			if s := in.find(string(kind), m.namespace, want.Workload); s != nil && s.unread != nil && s.member != nil {
				return true // there, and what is wrong with it is said
			}
		}
		return slices.ContainsFunc(in.together(m), func(o *member) bool { return o.read.Name == want.Workload })
	})
}

// stray is an unlabelled workload with the name of a member.
func (in *input) stray(m *member, want gang.Member) *subject {
	for _, kind := range []gang.Kind{gang.Job, gang.StatefulSet} {
		if s := in.find(string(kind), m.namespace, want.Workload); s != nil && s.written != nil && s.member == nil {
			return s
		}
	}
	return nil
}

func membersMissing(in *input, m *member) []remark {
	if !m.written.Several() || !in.first(m) {
		return nil
	}
	field := "metadata.annotations[" + gang.AnnotationRoles + "]"
	var out []remark
	for _, missing := range in.missing(m) {
		what := fmt.Sprintf("%s, a %s of %d pods, is not in the input", missing.Workload, missing.Role, missing.Size)
		switch s := in.stray(m, missing); {
		case s == nil:
			out = append(out, say(field, "%s", what).do("add it, or name its file as well")...)
		case !s.written.OptedOut(): // else the members disagree, and that is said
			out = append(out, say(field, "the %s %s has not the label %s", s.Kind, s.Name, gang.LabelFramework).do("add the label to it")...)
		}
	}
	return out
}

func gangNameShared(in *input, m *member) []remark {
	if m.written.Several() {
		return nil
	}
	const few = 3 // which are named
	var others []string
	for _, o := range in.together(m) {
		if o.written.Several() {
			return nil // they are looked at together, and disagree
		}
		if len(others) < few && o.name() != m.name() {
			others = append(others, "the "+o.Kind+" "+o.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	field := "metadata.name"
	if _, named := m.read.Labels[gang.LabelGang]; named {
		field = "metadata.labels[" + gang.LabelGang + "]"
	}
	slices.Sort(others)
	return say(field, "the gang is called %s, and so is that of %s; each of them has ranks from 0", m.gang.Name, strings.Join(slices.Compact(others), ", ")).
		do("name one of them differently with the label %s, or make them one gang with the annotation %s", gang.LabelGang, gang.AnnotationRoles)
}

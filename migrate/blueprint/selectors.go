package blueprint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// terms is the reading of one template's terms that select pods.
type terms struct {
	Labels
	// borne are the labels that the template itself gives to its pods.
	borne map[string]string
	node  ledger.Node
}

// reselect has the terms of all templates that select pods by labels of the former system
// select by those that the pods have now, and names those for which there are none.
func (b *Blueprint) reselect(members []member) {
	if len(b.Marks) == 0 || len(members) == 0 {
		return
	}
	labels := b.Selection()
	for i := range members {
		m := &members[i]
		t := terms{Labels: labels, borne: m.Template.Labels, node: m.parts[0].Node}
		spec, n := &m.Template.Spec, t.node.Get("spec")
		for j := range spec.TopologySpreadConstraints {
			c := &spec.TopologySpreadConstraints[j]
			at := n.Get("topologySpreadConstraints").Item(j)
			t.selector(c.LabelSelector, at.Get("labelSelector"))
			t.keys(c.MatchLabelKeys, at.Get("matchLabelKeys"))
		}
		if a := spec.Affinity; a != nil {
			if a.PodAffinity != nil {
				t.affinity(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, n.At("affinity", "podAffinity"))
			}
			if a.PodAntiAffinity != nil {
				t.affinity(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, n.At("affinity", "podAntiAffinity"))
			}
		}
	}
}

func (t terms) affinity(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, n ledger.Node) {
	for i := range required {
		t.term(&required[i], n.Get("requiredDuringSchedulingIgnoredDuringExecution").Item(i))
	}
	for i := range preferred {
		t.term(&preferred[i].PodAffinityTerm, n.Get("preferredDuringSchedulingIgnoredDuringExecution").Item(i).Get("podAffinityTerm"))
	}
}

func (t terms) term(term *corev1.PodAffinityTerm, n ledger.Node) {
	t.selector(term.LabelSelector, n.Get("labelSelector"))
	t.keys(term.MatchLabelKeys, n.Get("matchLabelKeys"))
	t.keys(term.MismatchLabelKeys, n.Get("mismatchLabelKeys"))
}

// former reports whether a label is one of the former system's that the pods have no more.
func (t terms) former(key, value string) bool {
	if _, own := t.borne[key]; own {
		return false
	}
	_, ok := t.Mark(key, value)
	return ok
}

func (t terms) selector(s *metav1.LabelSelector, n ledger.Node) {
	if s == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		value := s.MatchLabels[key]
		if !t.former(key, value) {
			continue
		}
		if t.idle(s, key, value) {
			delete(s.MatchLabels, key)
			t.enter(n, fmt.Sprintf("%s: %s", key, value), "the other labels of the term alone", true)
			continue
		}
		nowKey, now, ok := t.Now(key, value)
		if ok {
			delete(s.MatchLabels, key)
			s.MatchLabels[nowKey] = now
		}
		t.enter(n, fmt.Sprintf("%s: %s", key, value), fmt.Sprintf("%s: %s", nowKey, now), ok)
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		if !t.former(e.Key, "") {
			continue
		}
		was := written(e)
		ok := t.expression(e)
		t.enter(n, was, written(e), ok)
	}
}

// idle reports whether a label of a term tells nothing beside the others: all jobs' pods had
// it, and another names the gang or the part.
func (t terms) idle(s *metav1.LabelSelector, key, value string) bool {
	if m, _ := t.Mark(key, value); !m.Common {
		return false
	}
	for other, value := range s.MatchLabels {
		if m, ok := t.Mark(other, value); strings.HasPrefix(other, gang.Prefix) || ok && (m.Says == SaysGang || m.Says == SaysRole) {
			return true
		}
	}
	return false
}

// expression rewrites one, and reports whether it could.
func (t terms) expression(e *metav1.LabelSelectorRequirement) bool {
	if len(e.Values) == 0 { // Exists, DoesNotExist
		key, ok := t.key(e.Key)
		if ok {
			e.Key = key
		}
		return ok
	}
	next := ""
	var values []string
	for _, value := range e.Values {
		key, now, ok := t.Now(e.Key, value)
		if !ok || next != "" && key != next {
			return false
		}
		next, values = key, append(values, now)
	}
	e.Key, e.Values = next, values
	return true
}

// key is the label that takes the place of one whatever its value.
func (t terms) key(key string) (string, bool) {
	m, _ := t.Mark(key, "")
	switch m.Says {
	case SaysGang, SaysIndex:
		now, _, ok := t.Now(key, "")
		return now, ok
	case SaysRole:
		now, _, ok := t.Now(key, t.parts[0].part)
		return now, ok && !t.parts[0].shared
	case SaysWorkload:
		return key, true
	case SaysNothing:
	}
	return "", false
}

// keys rewrites a list of labels whose values are those of the pod itself.
func (t terms) keys(list []string, n ledger.Node) {
	for i, key := range list {
		if !t.former(key, "") {
			continue
		}
		now, ok := t.key(key)
		if ok {
			list[i] = now
		}
		t.enter(n, key, now, ok)
	}
}

// enter accounts for a term; there is nothing to say of one that holds.
func (t terms) enter(n ledger.Node, was, now string, ok bool) {
	if !n.Exists() { // it stands elsewhere in the manifest
		n = t.node
	}
	switch {
	case !ok:
		n.Remark(ledger.Lost, "", fmt.Sprintf("a term selects pods by %s, and no label of the new pods tells the same", was), t.Advice())
	case was != now:
		n.Remark(ledger.Changed, now, fmt.Sprintf("a term selects pods by %s, which the new pods do not bear", was), "")
	}
}

// written is a requirement for people: example.com/job In (a, b).
func written(e *metav1.LabelSelectorRequirement) string {
	if len(e.Values) == 0 {
		return fmt.Sprintf("%s %s", e.Key, e.Operator)
	}
	return fmt.Sprintf("%s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ", "))
}

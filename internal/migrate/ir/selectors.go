package ir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/migrate/source"
)

// selectorRewriter rewrites the terms of one pod template that select pods.
type selectorRewriter struct {
	LabelMapping
	// templateLabels are the labels of the template itself, which its pods keep.
	templateLabels map[string]string
	// source is the template in the manifest, for terms that are not in the manifest.
	source source.Field
}

// rewriteSelectors rewrites affinity and topology spread terms that select pods by labels of the
// former system. It reports the terms that [LabelMapping.Translate] cannot translate.
func (b *Gang) rewriteSelectors(workloads []plannedWorkload) {
	mapping := b.LabelMapping()
	for i := range workloads {
		w := &workloads[i]
		r := selectorRewriter{LabelMapping: mapping, templateLabels: w.Template.Labels, source: w.roles[0].Source}
		spec, field := &w.Template.Spec, r.source.Get("spec")
		for j := range spec.TopologySpreadConstraints {
			c, at := &spec.TopologySpreadConstraints[j], field.Get("topologySpreadConstraints").Item(j)
			r.rewriteSelector(c.LabelSelector, at.Get("labelSelector"))
			r.rewriteKeys(c.MatchLabelKeys, at.Get("matchLabelKeys"))
		}
		if spec.Affinity != nil {
			r.rewriteAffinity(spec.Affinity.PodAffinity, field.At("affinity", "podAffinity"))
			r.rewriteAffinity((*corev1.PodAffinity)(spec.Affinity.PodAntiAffinity), field.At("affinity", "podAntiAffinity"))
		}
	}
}

func (r selectorRewriter) rewriteAffinity(affinity *corev1.PodAffinity, field source.Field) {
	if affinity == nil {
		return
	}
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range required {
		r.rewriteTerm(&required[i], field.Get("requiredDuringSchedulingIgnoredDuringExecution").Item(i))
	}
	preferred := affinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range preferred {
		at := field.Get("preferredDuringSchedulingIgnoredDuringExecution").Item(i)
		r.rewriteTerm(&preferred[i].PodAffinityTerm, at.Get("podAffinityTerm"))
	}
}

func (r selectorRewriter) rewriteTerm(term *corev1.PodAffinityTerm, field source.Field) {
	r.rewriteSelector(term.LabelSelector, field.Get("labelSelector"))
	r.rewriteKeys(term.MatchLabelKeys, field.Get("matchLabelKeys"))
	r.rewriteKeys(term.MismatchLabelKeys, field.Get("mismatchLabelKeys"))
}

// translate is [LabelMapping.Translate], except for labels that the template defines itself.
func (r selectorRewriter) translate(key, value string) (newKey, newValue string, ok bool) {
	if _, defined := r.templateLabels[key]; defined {
		return key, value, true
	}
	return r.Translate(key, value)
}

func (r selectorRewriter) rewriteSelector(s *metav1.LabelSelector, field source.Field) {
	if s == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		value := s.MatchLabels[key]
		newKey, newValue, ok := r.translate(key, value)
		if ok {
			delete(s.MatchLabels, key)
			s.MatchLabels[newKey] = newValue
		}
		r.record(field, key+": "+value, newKey+": "+newValue, ok)
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		before := formatRequirement(e)
		ok := r.rewriteExpression(e)
		r.record(field, before, formatRequirement(e), ok)
	}
}

// rewriteExpression rewrites a requirement and reports whether it could. It leaves the requirement
// unchanged if one of its values has no translation, or if the values need different labels.
func (r selectorRewriter) rewriteExpression(e *metav1.LabelSelectorRequirement) bool {
	if len(e.Values) == 0 { // Exists, DoesNotExist
		key, _, ok := r.translate(e.Key, "")
		if ok {
			e.Key = key
		}
		return ok
	}
	newKey, values := "", make([]string, 0, len(e.Values))
	for _, value := range e.Values {
		key, now, ok := r.translate(e.Key, value)
		if !ok || newKey != "" && key != newKey {
			return false
		}
		newKey, values = key, append(values, now)
	}
	e.Key, e.Values = newKey, values
	return true
}

// rewriteKeys rewrites a list of labels whose values are those of the pod itself.
func (r selectorRewriter) rewriteKeys(keys []string, field source.Field) {
	for i, key := range keys {
		newKey, _, ok := r.translate(key, "")
		if ok {
			keys[i] = newKey
		}
		r.record(field, key, newKey, ok)
	}
}

func (r selectorRewriter) record(field source.Field, before, after string, ok bool) {
	if !field.Exists() { // the template is not from this manifest
		field = r.source
	}
	switch {
	case !ok:
		field.AddNoteWithOutcome(source.Dropped, "",
			"the term "+before+" does not select the same pods as before", r.SelectorHint())
	case before != after:
		field.AddNoteWithOutcome(source.Changed, after, "the term "+before+" does not select the new pods", "")
	}
}

// formatRequirement formats a requirement as "example.com/job In (a, b)".
func formatRequirement(e *metav1.LabelSelectorRequirement) string {
	if len(e.Values) == 0 {
		return fmt.Sprintf("%s %s", e.Key, e.Operator)
	}
	return fmt.Sprintf("%s %s (%s)", e.Key, e.Operator, strings.Join(e.Values, ", "))
}

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CanExcludeNode reports whether [Workload.ReplaceExcludedNodes] can exclude a node by its name. The API server rejects
// a name that cannot be the value of a label.
func CanExcludeNode(name string) bool {
	return name != "" && len(validation.IsValidLabelValue(name)) == 0
}

// ReplaceExcludedNodes makes the pods of a Job avoid the nodes after, instead of the nodes before, which an earlier
// call made them avoid. It adds one requirement to each term of the required node affinity, and all other requirements
// stay. Without nodes, the template is the template of the user. A StatefulSet stays unchanged, because a changed
// template would start a rollout. The node affinity of a suspended Job is mutable (KEP-2926).
func (w Workload) ReplaceExcludedNodes(before, after []string) {
	if w.Job == nil {
		return
	}
	spec := &w.Job.Spec.Template.Spec
	terms := removeExclusion(listNodeTerms(spec.Affinity), newExclusion(before))
	if len(after) > 0 {
		terms = addExclusion(terms, newExclusion(after))
	}
	spec.Affinity = replaceNodeTerms(spec.Affinity, terms)
}

// ReplaceSuspectNodes makes the pods of a Job prefer all other nodes to the nodes after, instead of the nodes before,
// which an earlier call made them avoid. A suspect node is used if no other node is free. Like
// [Workload.ReplaceExcludedNodes], it keeps all other rules, and leaves a StatefulSet unchanged.
func (w Workload) ReplaceSuspectNodes(before, after []string) {
	if w.Job == nil || len(before)+len(after) == 0 {
		return
	}
	spec := &w.Job.Spec.Template.Spec
	var preferences []corev1.PreferredSchedulingTerm
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil {
		preferences = slices.Clone(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	last := len(preferences) - 1
	if last >= 0 && len(before) > 0 && equality.Semantic.DeepEqual(preferences[last], newPreference(before)) {
		if preferences = preferences[:last]; last == 0 {
			preferences = nil
		}
	}
	if len(after) > 0 {
		preferences = append(preferences, newPreference(after))
	}
	out, nodes := copyAffinity(spec.Affinity)
	nodes.PreferredDuringSchedulingIgnoredDuringExecution = preferences
	spec.Affinity = joinAffinity(out, nodes)
}

// newPreference prefers all other nodes with the largest weight, because many other scores count too.
func newPreference(nodes []string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{newExclusion(nodes)},
	}}
}

func newExclusion(nodes []string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: slices.Clone(nodes),
	}
}

func listNodeTerms(a *corev1.Affinity) []corev1.NodeSelectorTerm {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// isEmptyTerm reports whether a term selects no node. With a requirement, it would select almost all nodes.
func isEmptyTerm(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions)+len(t.MatchFields) == 0
}

// removeExclusion returns terms without the last requirement of each term that is the exclusion, and without the terms
// that contain nothing else.
func removeExclusion(
	terms []corev1.NodeSelectorTerm, exclusion corev1.NodeSelectorRequirement,
) []corev1.NodeSelectorTerm {
	var out []corev1.NodeSelectorTerm
	for _, t := range terms {
		last := len(t.MatchExpressions) - 1
		if last >= 0 && len(exclusion.Values) > 0 && equality.Semantic.DeepEqual(t.MatchExpressions[last], exclusion) {
			if t.MatchExpressions = slices.Clone(t.MatchExpressions[:last]); last == 0 {
				t.MatchExpressions = nil
			}
			if isEmptyTerm(t) {
				continue
			}
		}
		out = append(out, t)
	}
	return out
}

func addExclusion(terms []corev1.NodeSelectorTerm, exclusion corev1.NodeSelectorRequirement) []corev1.NodeSelectorTerm {
	if len(terms) == 0 {
		return []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{exclusion}}}
	}
	out := slices.Clone(terms)
	for i, t := range out {
		if !isEmptyTerm(t) {
			out[i].MatchExpressions = append(slices.Clone(t.MatchExpressions), exclusion)
		}
	}
	return out
}

// replaceNodeTerms returns a copy of an affinity with other terms; nil for an affinity without a rule.
func replaceNodeTerms(a *corev1.Affinity, terms []corev1.NodeSelectorTerm) *corev1.Affinity {
	out, nodes := copyAffinity(a)
	nodes.RequiredDuringSchedulingIgnoredDuringExecution = nil
	if len(terms) > 0 {
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	return joinAffinity(out, nodes)
}

// copyAffinity returns the parts of an affinity, which may be nil.
func copyAffinity(a *corev1.Affinity) (out corev1.Affinity, nodes corev1.NodeAffinity) {
	if a != nil {
		out = *a
	}
	if out.NodeAffinity != nil {
		nodes = *out.NodeAffinity
	}
	return out, nodes
}

// joinAffinity returns an affinity with other rules for nodes; nil for an affinity without a rule.
func joinAffinity(out corev1.Affinity, nodes corev1.NodeAffinity) *corev1.Affinity {
	out.NodeAffinity = nil
	hasRequired := nodes.RequiredDuringSchedulingIgnoredDuringExecution != nil
	if hasRequired || len(nodes.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		out.NodeAffinity = &nodes
	}
	if out == (corev1.Affinity{}) {
		return nil
	}
	return &out
}

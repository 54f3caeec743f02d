package gang_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func newTerm(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func notIn(nodes ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: nodes,
	}
}

func newRequired(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// TestReplaceExcludedNodes excludes nodes from the affinity of a user, replaces them, and excludes none again.
func TestReplaceExcludedNodes(t *testing.T) {
	gpu := corev1.NodeSelectorRequirement{Key: "gpu", Operator: corev1.NodeSelectorOpExists}
	spot := corev1.NodeSelectorRequirement{Key: "spot", Operator: corev1.NodeSelectorOpDoesNotExist}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: newTerm(gpu)}}
	apart := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname,
	}}}
	for name, c := range map[string]struct{ user, want *corev1.Affinity }{
		"without an affinity": {nil, newRequired(newTerm(notIn("b", "c")))},
		"each term of the user excludes the nodes": {
			newRequired(newTerm(gpu), newTerm(spot, gpu)),
			newRequired(newTerm(gpu, notIn("b", "c")), newTerm(spot, gpu, notIn("b", "c"))),
		},
		"the nodes that the user excludes stay": {
			newRequired(newTerm(notIn("a"))), newRequired(newTerm(notIn("a"), notIn("b", "c"))),
		},
		"a term that selects no node selects none": {
			newRequired(corev1.NodeSelectorTerm{}, newTerm(gpu)),
			newRequired(corev1.NodeSelectorTerm{}, newTerm(gpu, notIn("b", "c"))),
		},
		"other rules stay": {
			&corev1.Affinity{
				PodAntiAffinity: apart,
				NodeAffinity:    &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
			},
			&corev1.Affinity{PodAntiAffinity: apart, NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: preferred,
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{newTerm(notIn("b", "c"))},
				},
			}},
		},
		"a node field of the user": {
			newRequired(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{gpu}}),
			newRequired(corev1.NodeSelectorTerm{
				MatchFields:      []corev1.NodeSelectorRequirement{gpu},
				MatchExpressions: []corev1.NodeSelectorRequirement{notIn("b", "c")},
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{}}
			w.Template().Spec.Affinity = c.user.DeepCopy()
			before := w.DeepCopy()
			w.ReplaceExcludedNodes(nil, []string{"b"})
			w.ReplaceExcludedNodes([]string{"b"}, []string{"b", "c"})
			if diff := cmp.Diff(c.want, w.Template().Spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			w.ReplaceExcludedNodes([]string{"b", "c"}, nil)
			if diff := cmp.Diff(before.Job, w.Job); diff != "" {
				t.Errorf("after the exclusion (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a StatefulSet stays unchanged", func(t *testing.T) {
		w := gang.Workload{StatefulSet: &appsv1.StatefulSet{}}
		if w.ReplaceExcludedNodes(nil, []string{"b"}); w.Template().Spec.Affinity != nil {
			t.Errorf("affinity %v", w.Template().Spec.Affinity)
		}
	})
}

// TestReplaceSuspectNodes prefers other nodes to suspects, replaces the suspects, and has none again.
func TestReplaceSuspectNodes(t *testing.T) {
	prefer := func(weight int32, requirements ...corev1.NodeSelectorRequirement) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight, Preference: newTerm(requirements...)}
	}
	newPreferred := func(terms ...corev1.PreferredSchedulingTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: terms,
		}}
	}
	gpu := corev1.NodeSelectorRequirement{Key: "gpu", Operator: corev1.NodeSelectorOpExists}
	required := newRequired(newTerm(gpu, notIn("a")))
	both := required.DeepCopy()
	both.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		prefer(100, notIn("b", "c")),
	}
	for name, c := range map[string]struct{ user, want *corev1.Affinity }{
		"without an affinity": {nil, newPreferred(prefer(100, notIn("b", "c")))},
		"preferences of the user stay": {
			newPreferred(prefer(1, gpu)), newPreferred(prefer(1, gpu), prefer(100, notIn("b", "c"))),
		},
		"nodes that the user does not prefer stay": {
			newPreferred(prefer(100, notIn("a"))), newPreferred(prefer(100, notIn("a")), prefer(100, notIn("b", "c"))),
		},
		"required rules stay": {required, both},
	} {
		t.Run(name, func(t *testing.T) {
			w := gang.Workload{Job: &batchv1.Job{}}
			w.Template().Spec.Affinity = c.user.DeepCopy()
			before := w.DeepCopy()
			w.ReplaceSuspectNodes(nil, []string{"b"})
			w.ReplaceSuspectNodes([]string{"b"}, []string{"b", "c"})
			if diff := cmp.Diff(c.want, w.Template().Spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			w.ReplaceSuspectNodes([]string{"b", "c"}, nil)
			if diff := cmp.Diff(before.Job, w.Job); diff != "" {
				t.Errorf("after the suspicion (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a StatefulSet stays unchanged", func(t *testing.T) {
		w := gang.Workload{StatefulSet: &appsv1.StatefulSet{}}
		if w.ReplaceSuspectNodes(nil, []string{"b"}); w.Template().Spec.Affinity != nil {
			t.Errorf("affinity %v", w.Template().Spec.Affinity)
		}
	})
}

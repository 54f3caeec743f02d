package injection

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// TestTolerationsAreReplaced checks that an admission of injected workloads keeps one toleration for each taint, and
// that a plan without tolerations removes them.
func TestTolerationsAreReplaced(t *testing.T) {
	w := newTestJob(withInjection(t, newTolerationPlan(60)))
	for _, p := range []plan.Plan{newTolerationPlan(30), newTolerationPlan(30), {}} {
		if _, denials := applyTo(t, w, p); len(denials) > 0 {
			t.Fatal(denials.ErrorList().ToAggregate())
		}
		isEqual := func(a, b corev1.Toleration) bool {
			return a.MatchToleration(&b) && *a.TolerationSeconds == *b.TolerationSeconds
		}
		if got := w.Template().Spec.Tolerations; !slices.EqualFunc(got, p.Tolerations, isEqual) {
			t.Errorf("the tolerations are %v, want %v", got, p.Tolerations)
		}
	}
}

// TestTolerationsOfEarlierBuild checks that a resize does not add tolerations to a StatefulSet that an earlier build
// injected without them. All pods of an elastic gang would be replaced. A new StatefulSet with a default of a policy
// has a record before its injection.
func TestTolerationsOfEarlierBuild(t *testing.T) {
	newSet := func() gang.Workload {
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: "train", Labels: map[string]string{gang.LabelFramework: "test"}, Annotations: map[string]string{},
			},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), ServiceName: "train", PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		}
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trainer"}}
		return gang.Workload{StatefulSet: set}
	}
	for _, c := range []struct {
		name   string
		record string
		first  plan.Plan
		want   int
	}{
		{name: "injected without tolerations", first: newLabelPlan(plan.Required)},
		{name: "injected with tolerations", first: newTolerationPlan(30), want: 1},
		{
			name: "new with a default of a policy", record: `{"injector":"","defaults":{"priorityClassName":"policy:a"}}`,
			first: newTolerationPlan(30), want: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSet()
			if c.record != "" {
				w.Meta().Annotations[gang.AnnotationInjected] = c.record
			}
			for _, p := range []plan.Plan{c.first, newTolerationPlan(30)} {
				if _, denials := applyTo(t, w, p); len(denials) > 0 {
					t.Fatal(denials.ErrorList().ToAggregate())
				}
			}
			if got := len(w.Template().Spec.Tolerations); got != c.want {
				t.Errorf("%d tolerations, want %d", got, c.want)
			}
		})
	}
}

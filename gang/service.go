package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Unfit says why a Service cannot give the pods of a workload, which has been injected,
// their names; empty when it can. It need not publish addresses of pods that are not
// ready: that is its owner's choice, and the ranks then meet later.
func Unfit(s *corev1.Service, w Workload) string {
	switch {
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		return "is not headless"
	case len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.Template().Labels)):
		return "does not select the gang's pods"
	}
	return ""
}

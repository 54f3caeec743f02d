package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ServiceMismatch returns why a Service does not publish the addresses of an injected workload's pods;
// empty if it does. A Service that publishes only ready pods is not a mismatch: its owner has chosen
// so, and the ranks find each other later.
func ServiceMismatch(s *corev1.Service, w Workload) string {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	switch {
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		return "is not headless"
	case len(s.Spec.Selector) == 0 || !selector.Matches(labels.Set(w.Template().Labels)):
		return "does not select the gang's pods"
	}
	return ""
}

package simulation

import corev1 "k8s.io/api/core/v1"

// checkNames checks that a starting rank resolves the names of the gang to pods of its own attempt.
func (o *oracle) checkNames(started *process) {
	for _, found := range o.resolve(started.pod) {
		if areOfDifferentAttempts(started.pod, found) {
			o.violate(gangSplit, "%s of attempt %s resolves %s to attempt %s",
				started.pod.Name, attemptOf(started.pod), found.Spec.Hostname, attemptOf(found))
		}
	}
}

// areOfDifferentAttempts reports whether two pods have labels with different attempts.
func areOfDifferentAttempts(a, b *corev1.Pod) bool {
	return attemptOf(a) != "" && attemptOf(b) != "" && attemptOf(a) != attemptOf(b)
}

// resolve returns the pods to which the names of the gang lead.
func (o *oracle) resolve(pod *corev1.Pod) []*corev1.Pod {
	service, ok := o.api.find(serviceKind, pod.Spec.Subdomain).(*corev1.Service)
	if !ok {
		return nil
	}
	var out []*corev1.Pod
	for _, other := range o.api.list(podKind) {
		other := other.(*corev1.Pod)
		matches := o.isOfGang(other) && !isTerminal(other) && other.Spec.NodeName != "" && o.hasOwner(other)
		for key, value := range service.Spec.Selector {
			matches = matches && other.Labels[key] == value
		}
		if matches {
			out = append(out, other)
		}
	}
	return out
}

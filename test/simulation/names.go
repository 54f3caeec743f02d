package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observeService checks the names that running ranks resolve after a Service has changed.
func (o *oracle) observeService(before, after client.Object) {
	if kindOf(cmpObject(after, before)) != serviceKind {
		return
	}
	for _, p := range o.programs.live {
		pod, exists := o.api.find(podKind, p.pod.Name).(*corev1.Pod)
		if exists && pod.UID == p.pod.UID && pod.DeletionTimestamp == nil && p.alive && o.isOfGang(p.pod) {
			o.checkNames(p)
		}
	}
}

// checkNames checks that a rank resolves the names of the gang to pods of its own attempt.
func (o *oracle) checkNames(started *process) {
	if o.resumedUnobserved || o.startedApart {
		return
	}
	for _, found := range o.resolve(started.pod) {
		if areOfDifferentAttempts(started.pod, found) || o.isOfEarlierStart(found, started.pod) {
			o.violate(gangSplit, "%s of attempt %s resolves %s to attempt %s",
				started.pod.Name, attemptOf(started.pod), found.Spec.Hostname, attemptOf(found))
		}
	}
}

// isOfEarlierStart reports whether a terminating pod is older than the last start of its Job, to which another pod
// belongs, although they have the same number. Nothing separates the pods of a Job that Rollcall does not restart.
func (o *oracle) isOfEarlierStart(found, started *corev1.Pod) bool {
	start, ok := o.restarted[controllerOf(found)]
	isNumbered := attemptOf(found) != ""
	return ok && isNumbered && controllerOf(started) == controllerOf(found) && found.DeletionTimestamp != nil &&
		found.CreationTimestamp.Time.Before(start) && !started.CreationTimestamp.Time.Before(start)
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

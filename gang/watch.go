package gang

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Watch is what is known of a gang when one looks for falls among its pods.
type Watch struct {
	// Attempt is the gang's present attempt. Pods of an earlier one are of no concern.
	Attempt int32
	// Fell is when the last restart was decided; zero when there was none. Begun is when
	// the ranks were let go after that. Pods that do not bear their attempt are told by
	// them.
	Fell, Begun time.Time
	// Trains names the training containers; none means all. What becomes of a container
	// beside them is no fall of the rank, unless its pod fails by it.
	Trains []string
	// Stopping is true when pods are being taken away because the gang restarts, ends, or
	// is held back. One that is told to go then did not fall by that.
	Stopping bool
	// Told is when Rollcall decided to stop the gang whose pods are taken away; zero when it
	// did not. First causes are looked for until all are gone.
	Told time.Time
}

// FirstFall returns the earliest fall among pods of a member of the gang; nil when all
// of them are well or have ended well.
func FirstFall(pods []corev1.Pod, offset int32, w Watch) *Fall {
	var first *Fall
	for i := range pods {
		f := w.fallOf(&pods[i])
		if f == nil {
			continue
		}
		f.Rank = offset + IndexOf(&pods[i])
		f.Pod, f.Node = pods[i].Name, pods[i].Spec.NodeName
		first = Earlier(first, f)
	}
	return first
}

func (w Watch) fallOf(pod *corev1.Pod) *Fall {
	if w.past(pod) {
		return nil // and on its way out
	}
	f, done := w.trainingFall(pod), Done(pod, w.Trains)
	if pod.DeletionTimestamp != nil && !done && (f == nil || f.Told) {
		if why := disruption(pod); why != "" || !w.Stopping {
			return &Fall{Reason: cmp.Or(why, FallDeleted), At: taken(pod)}
		}
		return f
	}
	switch {
	case done:
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		return podFall(pod, f)
	}
	return f
}

// trainingFall is how the first of a pod's training containers fell that was not told to end.
// A kubelet that knows that a pod is to go starts nothing in it again.
func (w Watch) trainingFall(pod *corev1.Pod) *Fall {
	again, now := containerFalls(pod, pod.Status.ContainerStatuses, w.Trains)
	if again != nil {
		if pod.DeletionTimestamp != nil && w.Stopping && w.Told.IsZero() && !again.At.Before(asked(pod)) {
			again = nil
		} else {
			again.Told = again.Told || !w.Told.IsZero() && again.At.After(w.Told)
		}
	}
	return Earlier(again, w.byItself(pod, now))
}

// byItself is the fall of a container that was not started again; nil when the deletion of
// its pod led to it.
func (w Watch) byItself(pod *corev1.Pod, f *Fall) *Fall {
	if f == nil {
		return nil
	}
	unclear := w.unclear(pod, f)
	if pod.DeletionTimestamp != nil && w.led(pod, f, unclear) {
		return nil
	}
	f.Told = f.Told || unclear && !f.outside()
	return f
}

// unclear reports whether a container may have ended since its gang was stopped: it was told
// to, or lost a peer that was told before it.
func (w Watch) unclear(pod *corev1.Pod, f *Fall) bool {
	switch {
	case w.Told.IsZero():
		return false
	case !f.At.Before(w.Told):
		return true
	case pod.DeletionTimestamp == nil:
		return false
	}
	// The kubelet's last word about a pod moves its deletion to the present (see past).
	moved := grace(pod) == 0 && !f.At.Before(w.Told.Add(-lead))
	return moved || f.At.Equal(asked(pod))
}

// led reports whether the deletion of a pod led to a fall in it.
func (w Watch) led(pod *corev1.Pod, f *Fall, unclear bool) bool {
	switch {
	case f.At.After(asked(pod)):
		return true
	case f.outside():
		return grace(pod) == 0 && !w.Told.IsZero() && f.At.After(w.Told)
	case w.Told.IsZero():
		return f.At.Equal(asked(pod))
	default:
		return unclear && (f.toldTo() || f.Told)
	}
}

// podFall is why a pod failed, of whose training containers the first fall is given: by
// itself, or since its kubelet took it away, which ends its containers too.
func podFall(pod *corev1.Pod, f *Fall) *Fall {
	why := cmp.Or(disruption(pod), pod.Status.Reason)
	if f == nil && why == "" { // one beside them, or one before them
		f = Earlier(containerFalls(pod, slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), nil))
		if f != nil {
			f.Helper, f.Peer = true, false // it talks to no rank
		}
	}
	switch {
	case f == nil:
		return &Fall{Reason: cmp.Or(why, "Failed"), Message: tail(pod.Status.Message), At: changed(pod)}
	case why == "" || f.At.Before(disrupted(pod)):
		return f
	default:
		return &Fall{Reason: why, Message: tail(pod.Status.Message), At: f.At}
	}
}

// past reports whether a pod is of an earlier attempt. A pod whose label is behind may
// still be of this one, where another than us resumed its Job. A pod that runs, and that
// nobody told to go, always is: no attempt begins before the last one's are gone, unless
// another began it, and then the gang was not started anew. To go by the times alone
// would take the pods of a StatefulSet for old ones that are made within the same
// second, or by a clock that is behind ours.
func (w Watch) past(pod *corev1.Pod) bool {
	n, ok := AttemptOf(pod)
	if ok && n >= w.Attempt {
		return false
	}
	if pod.DeletionTimestamp != nil && !asked(pod).After(w.Begun) {
		return true
	}
	// From 1.37 on, the kubelet's last word about a pod that has ended moves its deletion
	// to the present (apiserver, pkg/registry/rest/delete.go), which may be later. So does
	// whoever deletes it again by force, from a node that does not answer.
	return (over(pod) || ok && pod.DeletionTimestamp != nil) && !w.Fell.IsZero() && !pod.CreationTimestamp.After(w.Fell)
}

// over reports whether nothing of a pod runs any more, nor will.
func over(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
}

// containerFalls looks at some of a pod's containers, at all if none are named: the first
// fall of those that were started again, or wait for it, and of those that have ended.
func containerFalls(pod *corev1.Pod, all []corev1.ContainerStatus, names []string) (again, now *Fall) {
	fall := func(name string, t *corev1.ContainerStateTerminated) *Fall {
		if t == nil || t.ExitCode == 0 {
			return nil
		}
		at := t.FinishedAt.Time
		if at.IsZero() { // the kubelet lost the container (ContainerStatusUnknown)
			if pod.DeletionTimestamp != nil {
				return nil
			}
			at = changed(pod)
		}
		says := read(t.Message, at)
		return &Fall{Container: name, ExitCode: t.ExitCode, Reason: cmp.Or(t.Reason, "Error"),
			Peer: says.peer, Told: says.told, Noticed: says.noticed, Message: says.words, At: at}
	}
	for _, c := range all {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		again = Earlier(again, fall(c.Name, c.LastTerminationState.Terminated))
		now = Earlier(now, fall(c.Name, c.State.Terminated))
	}
	return again, now
}

// disruption is why the control plane took a pod away (KEP-3329); empty when it did not.
func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

// disrupted is when that was decided; zero when it was not.
func disrupted(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// changed is the last time at which one of the pod's conditions moved.
func changed(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// taken is when it was decided to take a pod away.
func taken(pod *corev1.Pod) time.Time {
	if at := disrupted(pod); !at.IsZero() && at.Before(asked(pod)) {
		return at
	}
	return asked(pod)
}

// asked is when the deletion of a pod was asked for that is being deleted.
func asked(pod *corev1.Pod) time.Time { return pod.DeletionTimestamp.Add(-grace(pod)) }

// grace is how long before its deletion timestamp a pod's deletion was asked for.
func grace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

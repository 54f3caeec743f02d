package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of a fall that are none of the kubelet's.
const (
	// FallDeleted: somebody or something took the pod away.
	FallDeleted = "Deleted"
	// FallUnseen: the workload counts a pod that failed, and that is gone by now.
	FallUnseen = "Unseen"
	// FallLate: the gang was not whole in time.
	FallLate = "StartTimeout"
)

// Fall is the first cause for which a gang cannot go on: one rank's end.
type Fall struct {
	// Rank is the rank in the gang, -1 when no one rank is to blame.
	Rank int32 `json:"rank"`
	// Pod and Node are where it ran.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Container is the one that ended; empty when the pod was taken away.
	Container string `json:"container,omitempty"`
	// ExitCode is the container's; 0 when none ended.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Reason is the kubelet's or the control plane's word, such as Error, OOMKilled,
	// Evicted, EvictionByEvictionAPI, or one of those above.
	Reason string `json:"reason"`
	// Message is the end of the container's termination message or log.
	Message string `json:"message,omitempty"`
	// At is when it ended, to the second.
	At time.Time `json:"at"`
}

// longestMessage bounds what is kept of a message. It stands in an annotation of each
// member, and in Events, which hold 1 KiB.
const longestMessage = 512

// String says the cause in a sentence.
func (f Fall) String() string {
	var out strings.Builder
	if f.Rank >= 0 {
		fmt.Fprintf(&out, "rank %d (pod %s", f.Rank, f.Pod)
		if f.Node != "" {
			fmt.Fprintf(&out, " on node %s", f.Node)
		}
		out.WriteString("): ")
	}
	out.WriteString(f.Reason)
	if f.Container != "" {
		fmt.Fprintf(&out, ", container %s ended with exit code %d", f.Container, f.ExitCode)
	}
	if f.Message != "" {
		fmt.Fprintf(&out, ": %s", f.Message)
	}
	return out.String()
}

// Watch is what is known of a gang when one looks for falls among its pods.
type Watch struct {
	// Attempt is the gang's present attempt. Pods of an earlier one are of no concern.
	Attempt int32
	// Fell is when the last restart was decided; zero when there was none. Begun is when
	// the ranks were let go after that. Pods that do not bear their attempt are told by
	// them.
	Fell, Begun time.Time
}

// FirstFall returns the earliest fall among pods of a member of the gang; nil when all
// of them are well or have ended well.
func FirstFall(pods []corev1.Pod, offset int32, w Watch) *Fall {
	var first *Fall
	for i := range pods {
		f := fallOf(&pods[i], w)
		if f == nil {
			continue
		}
		f.Rank = offset + IndexOf(&pods[i])
		f.Pod, f.Node = pods[i].Name, pods[i].Spec.NodeName
		first = Earlier(first, f)
	}
	return first
}

// Earlier returns the earlier of two falls, of which either may be nil. Of two within
// the same second, one with an exit code says more than a pod that was taken away.
func Earlier(a, b *Fall) *Fall {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case cmp.Or(a.At.Compare(b.At), -cmp.Compare(min(a.ExitCode, 1), min(b.ExitCode, 1)), cmp.Compare(a.Rank, b.Rank)) <= 0:
		return a
	default:
		return b
	}
}

func fallOf(pod *corev1.Pod, w Watch) *Fall {
	if w.past(pod) {
		return nil // and on its way out
	}
	f := containerFall(pod)
	if pod.DeletionTimestamp != nil && !Done(pod) {
		// What ends after that was told to.
		asked := pod.DeletionTimestamp.Add(-grace(pod))
		if f == nil || !f.At.Before(asked) {
			return &Fall{Reason: cmp.Or(disruption(pod), FallDeleted), At: asked}
		}
	}
	switch {
	case f != nil:
		return f
	case Done(pod):
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		return &Fall{Reason: cmp.Or(disruption(pod), pod.Status.Reason, "Failed"), Message: tail(pod.Status.Message), At: changed(pod)}
	}
	return nil
}

// past reports whether a pod is of an earlier attempt. A pod whose label is behind may
// still be of this one, where another than us resumed its Job. A pod that runs, and that
// nobody told to go, always is: no attempt begins before the last one's are gone, unless
// another began it, and then the gang was not started anew. To go by the times alone
// would take the pods of a StatefulSet for old ones that are made within the same
// second, or by a clock that is behind ours.
func (w Watch) past(pod *corev1.Pod) bool {
	if n, ok := AttemptOf(pod); ok && n >= w.Attempt {
		return false
	}
	if d := pod.DeletionTimestamp; d != nil && !d.Add(-grace(pod)).After(w.Begun) {
		return true
	}
	// From 1.37 on, the kubelet's last word about a pod that has ended moves its deletion
	// to the present (apiserver, pkg/registry/rest/delete.go), which may be later.
	return over(pod) && !w.Fell.IsZero() && !pod.CreationTimestamp.After(w.Fell)
}

// over reports whether nothing of a pod runs any more, nor will.
func over(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
}

// containerFall looks at a pod's containers, those that it restarted included.
func containerFall(pod *corev1.Pod) *Fall {
	var first *Fall
	for _, c := range pod.Status.ContainerStatuses {
		for _, t := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if t != nil && t.ExitCode != 0 {
				first = Earlier(first, &Fall{Container: c.Name, ExitCode: t.ExitCode, Reason: cmp.Or(t.Reason, "Error"),
					Message: tail(t.Message), At: t.FinishedAt.Time})
			}
		}
	}
	return first
}

// Done reports whether all containers of a pod ended well: a pod of a Job, for good; a
// pod of a StatefulSet at least once, since its containers are started again.
func Done(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	for _, c := range pod.Status.ContainerStatuses {
		t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if t == nil || t.ExitCode != 0 {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}

// IndexOf is the pod's index within its workload; 0 when it bears none.
func IndexOf(pod *corev1.Pod) int32 {
	text := cmp.Or(pod.Labels[batchv1.JobCompletionIndexAnnotation], pod.Labels[appsv1.PodIndexLabel])
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// AttemptOf is the number of restarts of the gang before the pod was made; false when
// the pod does not say.
func AttemptOf(pod *corev1.Pod) (int32, bool) {
	n, err := strconv.ParseInt(pod.Labels[LabelAttempt], 10, 32)
	return int32(n), err == nil
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

// grace is how long before its deletion timestamp a pod's deletion was asked for.
func grace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// tail keeps the end of a text, where programs say why they fail, from the beginning
// of a line if it can.
func tail(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= longestMessage {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-longestMessage:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	return "… " + text
}

// Lacking says which ranks of a member are not ready and why, of the first few: what a
// user has to know of a gang that does not become whole.
func Lacking(pods []corev1.Pod, m Member, offset int32) []string {
	const most = 3
	byIndex := map[int32]*corev1.Pod{}
	for i := range pods {
		byIndex[IndexOf(&pods[i])] = &pods[i]
	}
	var out []string
	lacking := 0
	for i := range m.Size {
		pod := byIndex[i]
		if pod != nil && (podReady(pod) || Done(pod)) {
			continue
		}
		if lacking++; lacking <= most {
			out = append(out, fmt.Sprintf("rank %d: %s", offset+i, unready(pod)))
		}
	}
	if lacking > most {
		out = append(out, fmt.Sprintf("and %d more", lacking-most))
	}
	return out
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unready says why a pod is not ready.
func unready(pod *corev1.Pod) string {
	if pod == nil {
		return "has no pod"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", c.Reason, tail(c.Message))
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", c.Name, w.Reason, tail(w.Message)), ": ")
		}
	}
	return fmt.Sprintf("is %s on node %s", cmp.Or(string(pod.Status.Phase), "Pending"), pod.Spec.NodeName)
}

package gang

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Done reports whether a rank ended well: a pod of a Job when all of its containers did,
// for good; a pod of a StatefulSet when its training containers did at least once, since
// they are started again. No names mean all containers.
func Done(pod *corev1.Pod, trains []string) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if _, ofSet := pod.Labels[appsv1.PodIndexLabel]; !ofSet {
		trains = nil
	}
	ended := 0
	for _, c := range pod.Status.ContainerStatuses {
		if len(trains) > 0 && !slices.Contains(trains, c.Name) {
			continue
		}
		t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if t == nil || t.ExitCode != 0 {
			return false
		}
		ended++
	}
	return ended > 0
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

// Number writes the number of an attempt to the pods of a Job that is suspended, which may
// change then (KEP-2926). It reports whether it was another.
func (w Workload) Number(attempt int32) bool {
	labels, text := w.Template().Labels, strconv.Itoa(int(attempt))
	if w.Job == nil || labels[LabelAttempt] == "" || labels[LabelAttempt] == text {
		return false
	}
	labels[LabelAttempt] = text
	return true
}

package gang

import (
	"cmp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// PodIndex returns the index of a pod within its workload; 0 without a valid index label.
func PodIndex(pod *corev1.Pod) int32 {
	text := cmp.Or(pod.Labels[batchv1.JobCompletionIndexAnnotation], pod.Labels[appsv1.PodIndexLabel])
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// PodAttempt returns the number of the gang's attempt when the pod was created; false without a valid
// [LabelAttempt].
func PodAttempt(pod *corev1.Pod) (int32, bool) { return parseAttempt(pod.Labels) }

// TemplateAttempt returns the number of the attempt with which a workload creates pods; 0 without a valid
// [LabelAttempt].
func (w Workload) TemplateAttempt() int32 {
	n, _ := parseAttempt(w.Template().Labels)
	return n
}

func parseAttempt(labels map[string]string) (int32, bool) {
	n, err := strconv.ParseInt(labels[LabelAttempt], 10, 32)
	return int32(n), err == nil
}

// SetAttempt sets [LabelAttempt] in the pod template of a Job, and reports whether the value changed. It also names the
// application of YuniKorn after the attempt.
// The template of a suspended Job is mutable (KEP-2926). A template without the label stays
// unchanged.
func (w Workload) SetAttempt(attempt int32) bool {
	labels, value := w.Template().Labels, strconv.Itoa(int(attempt))
	if w.Job == nil || labels[LabelAttempt] == "" || labels[LabelAttempt] == value {
		return false
	}
	setApplicationAttempt(w.Template(), value)
	labels[LabelAttempt] = value
	return true
}

package recording

import (
	"fmt"
	"maps"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// completionIndex is a label and an annotation of the pods of an Indexed Job.
	completionIndex = "batch.kubernetes.io/job-completion-index"
	// completionIndexEnv is the variable of their containers.
	completionIndexEnv = "JOB_COMPLETION_INDEX"
)

// Job is a batch/v1 Job that the operator created.
type Job struct {
	Name                  string            `json:"name"`
	Labels                map[string]string `json:"labels,omitempty"`
	Annotations           map[string]string `json:"annotations,omitempty"`
	CompletionMode        string            `json:"completionMode,omitempty"`
	Parallelism           *int32            `json:"parallelism,omitempty"`
	Completions           *int32            `json:"completions,omitempty"`
	BackoffLimit          *int32            `json:"backoffLimit,omitempty"`
	ActiveDeadlineSeconds *int64            `json:"activeDeadlineSeconds,omitempty"`
	TTLSecondsAfter       *int32            `json:"ttlSecondsAfterFinished,omitempty"`
	PodReplacementPolicy  string            `json:"podReplacementPolicy,omitempty"`
	Suspend               *bool             `json:"suspend,omitempty"`
}

// AddJob records a Job and the pods that the Job controller of Kubernetes creates for it. The
// relevant part of that controller is small and stable, and it is implemented here: the names, the
// labels with the name of the Job, and for an Indexed Job the host name, the index and its
// variable.
func (r *Recording) AddJob(j *batchv1.Job) {
	job := Job{
		Name:                  j.Name,
		Labels:                j.Labels,
		Annotations:           j.Annotations,
		Parallelism:           j.Spec.Parallelism,
		Completions:           j.Spec.Completions,
		BackoffLimit:          j.Spec.BackoffLimit,
		ActiveDeadlineSeconds: j.Spec.ActiveDeadlineSeconds,
		TTLSecondsAfter:       j.Spec.TTLSecondsAfterFinished,
		Suspend:               j.Spec.Suspend,
	}
	if j.Spec.CompletionMode != nil {
		job.CompletionMode = string(*j.Spec.CompletionMode)
	}
	if j.Spec.PodReplacementPolicy != nil {
		job.PodReplacementPolicy = string(*j.Spec.PodReplacementPolicy)
	}
	r.Jobs = append(r.Jobs, job)
	for i := range PodCount(j) {
		r.Pods = append(r.Pods, jobPod(j, int(i)))
	}
}

// PodCount returns the number of pods of the Job that run at the same time.
func PodCount(j *batchv1.Job) int32 {
	n := int32(1) // the default of the API server
	if j.Spec.Parallelism != nil {
		n = *j.Spec.Parallelism
	}
	if j.Spec.Completions != nil {
		n = min(n, *j.Spec.Completions)
	}
	return n
}

func jobPod(j *batchv1.Job, index int) Pod {
	template := j.Spec.Template.DeepCopy()
	labels, annotations := maps.Clone(template.Labels), maps.Clone(template.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels["job-name"], labels["batch.kubernetes.io/job-name"] = j.Name, j.Name
	name := j.Name
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion {
		name = fmt.Sprintf("%s-%d", j.Name, index)
		template.Spec.Hostname = name
		labels[completionIndex], annotations[completionIndex] = strconv.Itoa(index), strconv.Itoa(index)
		for i := range template.Spec.InitContainers {
			addCompletionIndex(&template.Spec.InitContainers[i])
		}
		for i := range template.Spec.Containers {
			addCompletionIndex(&template.Spec.Containers[i])
		}
	}
	p := newPod(name, labels, annotations, &template.Spec)
	p.Job = j.Name
	return p
}

func addCompletionIndex(c *corev1.Container) {
	for _, e := range c.Env {
		if e.Name == completionIndexEnv {
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{
		Name: completionIndexEnv,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: fmt.Sprintf("metadata.labels['%s']", completionIndex),
		}},
	})
}

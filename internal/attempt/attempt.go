package attempt

import (
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// Suspend suspends a Job or scales a StatefulSet to 0.
func Suspend(w gang.Workload) {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(true)
		return
	}
	w.StatefulSet.Spec.Replicas = ptr.To[int32](0)
}

// Resume resumes a Job or scales a StatefulSet to its recorded size, and reports whether it changed the
// workload. It sets the attempt label of the Job's pods: the labels of its template may change while the
// Job is suspended (KEP-2926). It does not resume a StatefulSet without a recorded size, which its user
// edited.
func Resume(w gang.Workload, attempt int32) bool {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(false)
		w.SetAttempt(attempt)
		return true
	}
	size := recordedReplicas(w)
	if size == 0 {
		return false
	}
	w.StatefulSet.Spec.Replicas = ptr.To(size)
	return true
}

// recordedReplicas returns the size to which a StatefulSet is resumed; 0 if it is not known. Users can
// edit the record. A size that exceeds the gang size in the environment of the pods is therefore not
// known: the record and the template were injected together. The environment of an elastic gang
// contains no size.
func recordedReplicas(w gang.Workload) int32 {
	if size := injection.RecordedSize(w); size <= injectedGangSize(w) {
		return size
	}
	return 0
}

// injectedGangSize returns the gang size in the environment of the pods, or [gang.MaxPods] without one.
func injectedGangSize(w gang.Workload) int32 {
	for _, c := range w.Template().Spec.Containers {
		for _, e := range c.Env {
			if size, err := strconv.ParseInt(e.Value, 10, 32); e.Name == gang.EnvSize && err == nil {
				return int32(min(size, gang.MaxPods))
			}
		}
	}
	return gang.MaxPods
}

// HasLabel reports whether the pods of a workload carry the number of their attempt, which is true for
// Jobs that Rollcall restarts.
func HasLabel(w gang.Workload) bool { return w.Template().Labels[gang.LabelAttempt] != "" }

// ResetJobStatus resets what the status of a suspended Job records about the last attempt: the start
// time and, with restartsCompleted, the completed indexes. It reports whether it changed the status.
//
// The API server lets the template of a Job change only if the Job is suspended and has not started
// (KEP-2926), and the template needs a new attempt label. Before Kubernetes 1.33.6 and 1.34.2, the Job
// controller also resumed a Job with another start time, which the API server rejected, so that the
// Job never had pods again (kubernetes/kubernetes#134521). The start time is therefore also cleared
// for Jobs that somebody else resumes. From Kubernetes 1.36, the Job controller clears the start time
// when it suspends a Job. Kueue clears the start time in the same way (pkg/controller/jobs/job, Stop).
//
// Kubernetes creates no pod for a completed index. Without the reset, the next attempt would wait
// indefinitely for a rank that exited with code 0 when its node was drained, or that succeeded before
// its peers failed. The API server lets the counter of an Indexed Job decrease if completions equals
// parallelism (kubernetes pkg/registry/batch/job/strategy.go), as it does for all Jobs of a gang. The
// Job controller continues from the indexes in the status (indexed_job_utils.go). See
// docs/adr/0005-restarts.md.
func ResetJobStatus(job *batchv1.Job, restartsCompleted bool) bool {
	status := &job.Status
	hasCompleted := restartsCompleted && status.Succeeded > 0
	if status.StartTime == nil && !hasCompleted {
		return false
	}
	status.StartTime = nil
	if hasCompleted {
		status.Succeeded, status.CompletedIndexes = 0, ""
		requeue(job)
	}
	return true
}

// requeue makes Kueue replace the Workload of a suspended Job in a queue, so that the Job waits for the quota of all
// ranks again. Kueue does not replace a prebuilt Workload.
//
// Kueue has given the quota of the completed ranks to others. It cannot take that back: its webhook denies a Workload
// with quota that has fewer reclaimablePods than before (kueue pkg/webhooks, 0.19), and until its controller has
// written them, it neither resumes the Job nor completes an eviction, for which other Jobs may wait
// (pkg/controller/jobframework). It deletes the Workload of a suspended Job with another maximum execution time, which
// changes nothing else. The maximum becomes a second longer; without one, it becomes that of the type, 68 years.
// The change of the label is part of the write that resets the status, so that no crash separates them.
func requeue(job *batchv1.Job) {
	isPrebuilt := job.Labels[gang.LabelPrebuiltWorkload] != "" || job.Annotations[gang.LabelPrebuiltWorkload] != ""
	if job.Labels[gang.LabelQueueName] == "" || isPrebuilt {
		return
	}
	seconds, err := strconv.ParseInt(job.Labels[gang.LabelMaxExecutionTime], 10, 32)
	switch {
	case err != nil:
		seconds = math.MaxInt32
	case seconds == math.MaxInt32:
		seconds--
	default:
		seconds++
	}
	job.Labels[gang.LabelMaxExecutionTime] = strconv.FormatInt(seconds, 10)
}

// HasUncountedPods reports whether the Job controller is about to add terminated pods to its counters. These pods are
// in status.uncountedTerminatedPods. A Job with backoffLimitPerIndex counts a failed pod only after it has replaced
// the pod, which a suspended Job does not do (kubernetes pkg/controller/job, getPodsWithDelayedDeletionPerIndex).
func HasUncountedPods(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	if uncounted == nil {
		return false
	}
	return len(uncounted.Succeeded) > 0 || len(uncounted.Failed) > 0 && job.Spec.BackoffLimitPerIndex == nil
}

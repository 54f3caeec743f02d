package attempt

import (
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
)

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
	}
	return true
}

// HasUncountedPods reports whether the Job controller has observed terminated pods that it has not
// added to its counters. These pods are in status.uncountedTerminatedPods.
func HasUncountedPods(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	return uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0
}

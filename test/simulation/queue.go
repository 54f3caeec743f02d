package simulation

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// startQueue starts a stand-in for Kueue. It resumes an admitted Job whenever the Job is suspended, and restores
// the original template of the Job first. It does not admit a Job that has fewer completed ranks than its Workload,
// which it replaces if the maximum execution time of the Job changes.
func (s *simulation) startQueue(m memberSpec) {
	s.api.watch(jobKind, "kueue/jobs", nil, func(_, after client.Object) {
		s.reclaim(after)
		if job, ok := after.(*batchv1.Job); ok && ptr.Deref(job.Spec.Suspend, false) {
			s.after("kueue/sync", func() { s.admitByQueue(m) })
		}
	})
}

// queueWorkload is the Workload of a Job. Its reclaimed ranks never become fewer.
type queueWorkload struct {
	job       types.UID
	maximum   string
	reclaimed int32
}

// isOf reports whether the Workload is that of a Job, and not of another Job or with another maximum execution time.
func (w queueWorkload) isOf(job *batchv1.Job) bool {
	return w.job == job.UID && w.maximum == job.Labels[gang.LabelMaxExecutionTime]
}

// blocks reports whether the Workload has reclaimed ranks of a Job that run again.
func (w queueWorkload) blocks(job *batchv1.Job) bool {
	return w.isOf(job) && job.Status.Succeeded < w.reclaimed
}

// reclaim updates the Workload of a Job, or replaces it. after is nil if the Job was deleted.
func (s *simulation) reclaim(after client.Object) {
	job, ok := after.(*batchv1.Job)
	if !ok {
		return
	}
	if !s.queueWorkload.isOf(job) {
		s.queueWorkload = queueWorkload{job: job.UID, maximum: job.Labels[gang.LabelMaxExecutionTime]}
	}
	s.queueWorkload.reclaimed = max(s.queueWorkload.reclaimed, job.Status.Succeeded)
}

// admitByQueue resumes an admitted Job.
func (s *simulation) admitByQueue(m memberSpec) {
	w, ok := s.member(m)
	if s.userSuspended || !ok || !w.IsSuspended() || isJobFinished(w.Job) || s.queueWorkload.blocks(w.Job) {
		return
	}
	s.recordResumption()
	s.resetStartTime(m)
	s.updateMember(m, func(w gang.Workload) {
		if w.Job.Status.StartTime == nil {
			w.Template().Labels[gang.LabelAttempt] = "0"
		}
		w.Job.Spec.Suspend = ptr.To(false)
	})
}

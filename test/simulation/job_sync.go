package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// jobSync is one sync of a Job, with the names and the order of syncJob.
type jobSync struct {
	c      *jobController
	worker *jobWorker
	job    *batchv1.Job
	pods   []*corev1.Pod

	active     []*corev1.Pod
	uncounted  sets.Set[types.UID]
	succeeded  sets.Set[int32]
	finished   *batchv1.JobCondition
	needsFlush bool
	// counted are the pods whose finalizers are removed after the status was written.
	counted  []*corev1.Pod
	steps    []func() error
	nextSync time.Duration
}

func newJobSync(c *jobController, worker *jobWorker, job *batchv1.Job, pods []*corev1.Pod) *jobSync {
	s := &jobSync{c: c, worker: worker, job: job, pods: pods, uncounted: sets.Set[types.UID]{}}
	for _, pod := range pods {
		if !isTerminal(pod) && pod.DeletionTimestamp == nil {
			s.active = append(s.active, pod)
		}
	}
	if job.Status.UncountedTerminatedPods != nil {
		s.uncounted.Insert(job.Status.UncountedTerminatedPods.Failed...)
	}
	s.succeeded = parseIndexes(job.Status.CompletedIndexes)
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded && isTracked(pod) && gang.PodIndex(pod) < s.completions() {
			s.succeeded.Insert(gang.PodIndex(pod))
		}
	}
	return s
}

func (s *jobSync) completions() int32 { return ptr.Deref(s.job.Spec.Completions, 0) }

func (s *jobSync) isSuspended() bool { return ptr.Deref(s.job.Spec.Suspend, false) }

// isPodFailed reports whether a pod counts as failed. A deleted pod does, because it may never reach a phase.
func (s *jobSync) isPodFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !s.onlyReplacesFailed() && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

func (s *jobSync) onlyReplacesFailed() bool {
	return ptr.Deref(s.job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
}

func (s *jobSync) hasSatisfiedExpectations() bool {
	return s.worker.creations == 0 && s.worker.deletions.Len() == 0
}

// decide fills steps with the requests of the sync.
func (s *jobSync) decide() {
	if s.job.Status.StartTime == nil && !s.isSuspended() {
		s.job.Status.StartTime = ptr.To(metav1.NewTime(s.c.w.now.Truncate(time.Second)))
		s.needsFlush = true
	}
	s.countFailuresInARow()
	s.findResult()
	switch {
	case s.finished != nil:
		if !s.hasSatisfiedExpectations() {
			s.finished = nil
		}
		for _, pod := range s.active {
			s.deletePod(pod, false)
		}
	case s.hasSatisfiedExpectations() && s.job.DeletionTimestamp == nil:
		s.managePods()
		s.findCompletion()
		if s.finished == nil {
			s.updateSuspended()
		}
	default:
		s.findCompletion()
	}
	s.countPods()
	s.addSteps()
}

// countFailuresInARow counts new failed pods for the delay before their replacement.
func (s *jobSync) countFailuresInARow() {
	for _, pod := range s.pods {
		if !isTracked(pod) || s.uncounted.Has(pod.UID) || !s.isPodFailed(pod) {
			continue
		}
		key := int32(-1)
		if s.job.Spec.BackoffLimitPerIndex != nil {
			key = gang.PodIndex(pod)
		}
		mark := "failed " + pod.UID
		if s.worker.removals.Has(pod.UID) || s.worker.removals.Has(mark) {
			continue
		}
		s.worker.removals.Insert(mark) // counts once
		s.worker.failed[key]++
		s.worker.failedTime[key] = s.c.w.now
	}
}

// findResult looks for a result other than the completion of all indexes.
func (s *jobSync) findResult() {
	switch {
	case hasJobCondition(s.job, batchv1.JobSuccessCriteriaMet):
		s.finished = &batchv1.JobCondition{Type: batchv1.JobComplete}
	case hasJobCondition(s.job, batchv1.JobFailureTarget):
		s.finished = &batchv1.JobCondition{Type: batchv1.JobFailed}
		for _, c := range s.job.Status.Conditions {
			if c.Type == batchv1.JobFailureTarget {
				s.finished.Reason, s.finished.Message = c.Reason, c.Message
			}
		}
	default:
		s.findFailure()
	}
	if s.finished == nil && s.isSuccessPolicyMet() {
		s.finished = &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Reason: "SuccessPolicy"}
	}
}

// findFailure compares the Job with its limits.
func (s *jobSync) findFailure() {
	status, spec := &s.job.Status, &s.job.Spec
	newFailed := 0
	for _, pod := range s.pods {
		if isTracked(pod) && !s.uncounted.Has(pod.UID) && s.isPodFailed(pod) {
			newFailed++
		}
	}
	if int(status.Failed)+s.uncounted.Len()+newFailed > int(ptr.Deref(spec.BackoffLimit, 6)) {
		s.fail("BackoffLimitExceeded")
		return
	}
	if deadline := spec.ActiveDeadlineSeconds; deadline != nil && !s.isSuspended() && status.StartTime != nil {
		s.nextSync = time.Duration(*deadline)*time.Second - s.c.w.now.Sub(status.StartTime.Time)
		if s.nextSync <= 0 {
			s.nextSync = 0
			s.fail("DeadlineExceeded")
			return
		}
	}
	for index, n := range s.worker.failed {
		isOverLimit := spec.BackoffLimitPerIndex != nil && index >= 0 && n > int(*spec.BackoffLimitPerIndex)
		if isOverLimit && ptr.Deref(spec.MaxFailedIndexes, 1<<30) == 0 {
			s.fail("MaxFailedIndexesExceeded")
		}
	}
}

func (s *jobSync) fail(reason string) {
	s.finished = &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Reason: reason, Message: "Job was failed"}
}

func (s *jobSync) isSuccessPolicyMet() bool {
	policy := s.job.Spec.SuccessPolicy
	if policy == nil {
		return false
	}
	return slices.ContainsFunc(policy.Rules, func(rule batchv1.SuccessPolicyRule) bool {
		relevant := s.succeeded
		required := s.completions()
		if rule.SucceededIndexes != nil {
			named := parseIndexes(*rule.SucceededIndexes)
			relevant, required = s.succeeded.Intersection(named), int32(named.Len())
		}
		return int32(relevant.Len()) >= ptr.Deref(rule.SucceededCount, required)
	})
}

// findCompletion looks for the success of all indexes.
func (s *jobSync) findCompletion() {
	if s.finished == nil && int32(s.succeeded.Len()) >= s.completions() {
		s.finished = &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Reason: "CompletionsReached"}
	}
}

// updateSuspended sets the condition Suspended. A suspension clears the start time.
func (s *jobSync) updateSuspended() {
	want := corev1.ConditionFalse
	if s.isSuspended() {
		want = corev1.ConditionTrue
	}
	i := slices.IndexFunc(s.job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended
	})
	if i >= 0 && s.job.Status.Conditions[i].Status == want || i < 0 && want == corev1.ConditionFalse {
		return
	}
	changed := s.newCondition(batchv1.JobCondition{Type: batchv1.JobSuspended})
	changed.Status = want
	if i < 0 {
		s.job.Status.Conditions = append(s.job.Status.Conditions, changed)
	} else {
		s.job.Status.Conditions[i] = changed
	}
	s.job.Status.StartTime = nil
	if !s.isSuspended() {
		s.job.Status.StartTime = ptr.To(metav1.NewTime(s.c.w.now.Truncate(time.Second)))
	}
	s.needsFlush = true
}

func (s *jobSync) newCondition(c batchv1.JobCondition) batchv1.JobCondition {
	c.Status, c.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(s.c.w.now.Truncate(time.Second))
	return c
}

// managePods creates and deletes pods (manageJob).
func (s *jobSync) managePods() {
	if s.isSuspended() {
		for _, pod := range s.active {
			s.deletePod(pod, true)
			delete(s.worker.failed, gang.PodIndex(pod))
		}
		return
	}
	wanted := min(ptr.Deref(s.job.Spec.Parallelism, 1), s.completions()-int32(s.succeeded.Len()))
	taken := s.succeeded.Clone()
	byIndex := slices.Clone(s.active)
	slices.SortStableFunc(byIndex, func(a, b *corev1.Pod) int { return int(gang.PodIndex(a) - gang.PodIndex(b)) })
	kept := int32(0)
	for _, pod := range byIndex {
		index := gang.PodIndex(pod)
		if kept >= wanted || index >= s.completions() || taken.Has(index) {
			s.deletePod(pod, true)
			continue
		}
		taken.Insert(index)
		kept++
	}
	if len(s.steps) > 0 {
		return // the real controller does not create and delete in one sync
	}
	for _, pod := range s.pods {
		if s.onlyReplacesFailed() && pod.DeletionTimestamp != nil && !isTerminal(pod) {
			taken.Insert(gang.PodIndex(pod))
		}
	}
	for index := int32(0); index < s.completions() && kept < wanted; index++ {
		if !taken.Has(index) {
			kept++
			s.createPod(index)
		}
	}
}

// createPod creates a pod, unless the delay after failures has not elapsed.
func (s *jobSync) createPod(index int32) {
	key := int32(-1)
	if s.job.Spec.BackoffLimitPerIndex != nil {
		key = index
	}
	if n := s.worker.failed[key]; n > 0 {
		delay := min(10*time.Second<<min(n-1, 8), 10*time.Minute)
		if remaining := s.worker.failedTime[key].Add(delay).Sub(s.c.w.now); remaining > 0 {
			if s.nextSync == 0 || remaining < s.nextSync {
				s.nextSync = remaining
			}
			return
		}
	}
	s.worker.creations++
	s.steps = append(s.steps, func() error {
		if _, err := s.c.api.create(s.c.newPod(s.job, index)); err != nil {
			s.worker.creations--
			return fmt.Errorf("creating a pod: %w", err)
		}
		s.worker.podVersion = s.c.api.version
		return nil
	})
}

// deletePod deletes a pod, after it removed the finalizer if the pod is not counted.
func (s *jobSync) deletePod(pod *corev1.Pod, untrack bool) {
	s.worker.deletions.Insert(pod.UID)
	s.steps = append(s.steps, func() error {
		if untrack && isTracked(pod) {
			if err := s.c.removeFinalizer(pod); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if err := s.c.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID}); err != nil {
			s.worker.deletions.Delete(pod.UID)
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// parseIndexes returns the indexes in the format of completedIndexes.
func parseIndexes(text string) sets.Set[int32] {
	out := sets.Set[int32]{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			last, _ = strconv.Atoi(to)
		}
		for i := first; i <= last; i++ {
			out.Insert(int32(i))
		}
	}
	return out
}

// formatIndexes is the inverse of parseIndexes.
func formatIndexes(indexes sets.Set[int32]) string {
	var parts []string
	sorted := sets.List(indexes)
	for i := 0; i < len(sorted); i++ {
		first := sorted[i]
		for i+1 < len(sorted) && sorted[i+1] == sorted[i]+1 {
			i++
		}
		text, last := strconv.Itoa(int(first)), strconv.Itoa(int(sorted[i]))
		switch sorted[i] - first {
		case 0:
			parts = append(parts, text)
		case 1:
			parts = append(parts, text, last)
		default:
			parts = append(parts, text+"-"+last)
		}
	}
	return strings.Join(parts, ",")
}

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// jobSync is one sync of a Job, with the names and the order of syncJob.
type jobSync struct {
	c      *jobController
	worker *jobWorker
	job    *batchv1.Job
	pods   []*corev1.Pod

	activePods []*corev1.Pod
	// active, ready and terminating are the numbers of pods after the requests of the sync.
	active, ready, terminating int32
	// newFailed are failed pods that the status does not contain.
	newFailed []*corev1.Pod
	// backoff replaces that of the worker after the status was written.
	backoff    jobBackoff
	uncounted  sets.Set[types.UID]
	succeeded  sets.Set[int32]
	failed     sets.Set[int32]
	kept       map[int32]*corev1.Pod
	finished   *batchv1.JobCondition
	needsFlush bool
	// counted are the pods whose finalizers are removed after the status was written.
	counted []*corev1.Pod
	steps   []func() error
	// podErr is an error of a request that creates or deletes a pod.
	podErr   error
	nextSync time.Duration
}

func newJobSync(c *jobController, worker *jobWorker, job *batchv1.Job, pods []*corev1.Pod) *jobSync {
	s := &jobSync{c: c, worker: worker, job: job, pods: pods, uncounted: sets.Set[types.UID]{}}
	for _, pod := range pods {
		switch {
		case isTerminal(pod):
		case pod.DeletionTimestamp != nil:
			s.terminating++
		default:
			s.activePods = append(s.activePods, pod)
			s.active++
			s.ready += countReady(pod)
		}
	}
	if job.Status.UncountedTerminatedPods == nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.uncounted.Insert(job.Status.UncountedTerminatedPods.Failed...)
	s.succeeded = s.limitIndexes(parseIndexes(job.Status.CompletedIndexes))
	s.failed = s.limitIndexes(parseIndexes(ptr.Deref(job.Status.FailedIndexes, "")))
	for _, pod := range pods {
		index := gang.PodIndex(pod)
		switch {
		case !isTracked(pod) || index >= s.completions():
		case pod.Status.Phase == corev1.PodSucceeded:
			s.succeeded.Insert(index)
		case s.isPodFailed(pod) && !s.isIgnored(pod) && s.hasLimitPerIndex() &&
			failureCount(pod) >= *job.Spec.BackoffLimitPerIndex:
			s.failed.Insert(index)
		}
	}
	s.newFailed = s.validPods(s.uncounted, s.isPodFailed)
	s.backoff = s.newBackoff()
	s.kept = s.podsToKeep()
	return s
}

func countReady(pod *corev1.Pod) int32 {
	if isReady(pod) {
		return 1
	}
	return 0
}

func (s *jobSync) completions() int32 { return ptr.Deref(s.job.Spec.Completions, 0) }

func (s *jobSync) isSuspended() bool { return ptr.Deref(s.job.Spec.Suspend, false) }

func (s *jobSync) hasLimitPerIndex() bool { return s.job.Spec.BackoffLimitPerIndex != nil }

func (s *jobSync) limitIndexes(indexes sets.Set[int32]) sets.Set[int32] {
	for index := range indexes {
		if index >= s.completions() {
			indexes.Delete(index)
		}
	}
	return indexes
}

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

// validPods returns the selected pods that the status does not contain (getValidPodsWithFilter).
func (s *jobSync) validPods(uncounted sets.Set[types.UID], isSelected func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range s.pods {
		isValid := isTracked(pod) && !uncounted.Has(pod.UID) && !s.worker.removals.Has(pod.UID) &&
			gang.PodIndex(pod) < s.completions()
		if isValid && isSelected(pod) {
			out = append(out, pod)
		}
	}
	return out
}

func (s *jobSync) hasSatisfiedExpectations() bool {
	return s.worker.creations == 0 && s.worker.deletions.Len() == 0
}

// decide fills steps with the requests of the sync.
func (s *jobSync) decide() {
	if s.job.Status.StartTime == nil && !s.isSuspended() {
		s.job.Status.StartTime = ptr.To(metav1.NewTime(s.c.w.now.Truncate(time.Second)))
	}
	s.findResult()
	if s.finished != nil {
		if !s.hasSatisfiedExpectations() {
			s.finished = nil
		}
		for _, pod := range s.activePods {
			s.deletePod(pod, false)
		}
	} else {
		isManaged := s.hasSatisfiedExpectations() && s.job.DeletionTimestamp == nil
		if isManaged {
			s.managePods()
		}
		if int32(s.succeeded.Len()) >= s.completions() && s.active == 0 {
			s.finished = &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Reason: "CompletionsReached"}
		} else if isManaged {
			s.updateSuspended()
		}
	}
	s.track()
}

// findResult looks for a result other than the completion of all indexes.
func (s *jobSync) findResult() {
	for _, c := range s.job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobSuccessCriteriaMet:
			s.finished = &c
			return
		case c.Type == batchv1.JobFailureTarget:
			s.finished = &batchv1.JobCondition{Type: batchv1.JobFailed, Reason: c.Reason, Message: c.Message}
		}
	}
	if s.finished == nil {
		s.findFailure()
	}
	if s.finished == nil && s.isSuccessPolicyMet() {
		s.finished = &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Reason: "SuccessPolicy"}
	}
}

// findFailure compares the Job with its limits.
func (s *jobSync) findFailure() {
	status, spec := &s.job.Status, &s.job.Spec
	failed := int(status.Failed) + s.uncounted.Len()
	for _, pod := range s.newFailed {
		if !s.isIgnored(pod) {
			failed++
		}
	}
	if failed > int(ptr.Deref(spec.BackoffLimit, 6)) || s.isPastLimitOfContainers() {
		s.fail("BackoffLimitExceeded")
		return
	}
	if deadline := spec.ActiveDeadlineSeconds; deadline != nil && !s.isSuspended() && status.StartTime != nil {
		remaining := time.Duration(*deadline)*time.Second - s.c.w.now.Sub(status.StartTime.Time)
		if remaining <= 0 {
			s.fail("DeadlineExceeded")
			return
		}
		s.nextSync = remaining
	}
	if !s.hasLimitPerIndex() || s.failed.Len() == 0 {
		return
	}
	if limit := spec.MaxFailedIndexes; limit != nil && s.failed.Len() > int(*limit) {
		s.fail("MaxFailedIndexesExceeded")
	} else if int32(s.failed.Len()+s.succeeded.Len()) >= s.completions() {
		s.fail("FailedIndexes")
	}
}

func (s *jobSync) fail(reason string) {
	s.finished = &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Reason: reason, Message: "Job was failed"}
}

// isPastLimitOfContainers compares the restarts of containers with the limit (pastBackoffLimitOnFailure).
func (s *jobSync) isPastLimitOfContainers() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := int32(0)
	for _, pod := range s.pods {
		for _, c := range pod.Status.ContainerStatuses {
			if !isTerminal(pod) {
				restarts += c.RestartCount
			}
		}
	}
	return restarts >= max(1, ptr.Deref(s.job.Spec.BackoffLimit, 6))
}

func (s *jobSync) isSuccessPolicyMet() bool {
	policy := s.job.Spec.SuccessPolicy
	if policy == nil || s.succeeded.Len() == 0 {
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

// updateSuspended sets the condition Suspended. A suspension clears the start time.
func (s *jobSync) updateSuspended() {
	want := batchv1.JobCondition{
		Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, Reason: "JobResumed", Message: "Job resumed",
		LastTransitionTime: metav1.NewTime(s.c.w.now.Truncate(time.Second)),
	}
	if s.isSuspended() {
		want.Status, want.Reason, want.Message = corev1.ConditionTrue, "JobSuspended", "Job suspended"
	}
	conditions := &s.job.Status.Conditions
	i := slices.IndexFunc(*conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
	switch {
	case i >= 0 && (*conditions)[i].Status == want.Status || i < 0 && !s.isSuspended():
		return
	case i < 0:
		*conditions = append(*conditions, want)
	default:
		(*conditions)[i] = want
	}
	s.job.Status.StartTime = nil
	if !s.isSuspended() {
		s.job.Status.StartTime = ptr.To(metav1.NewTime(s.c.w.now.Truncate(time.Second)))
	}
	s.needsFlush = true
}

// managePods creates and deletes pods (manageJob).
func (s *jobSync) managePods() {
	if s.isSuspended() {
		for _, pod := range s.activePods {
			s.deletePod(pod, true)
		}
		return
	}
	wanted := max(0, min(ptr.Deref(s.job.Spec.Parallelism, 1), s.completions()-int32(s.succeeded.Len())))
	if surplus := s.podsToRemove(int(s.active - wanted)); len(surplus) > 0 {
		for _, pod := range surplus {
			s.deletePod(pod, true)
		}
		return // the real controller does not create and delete in one sync
	}
	taken := s.succeeded.Union(s.failed)
	for _, pod := range s.activePods {
		taken.Insert(gang.PodIndex(pod))
	}
	missing := wanted - s.active
	if s.onlyReplacesFailed() {
		missing -= s.terminating
		for _, pod := range s.pods {
			if pod.DeletionTimestamp != nil && !isTerminal(pod) {
				taken.Insert(gang.PodIndex(pod))
			}
		}
	}
	var pending []int32
	for index := int32(0); index < s.completions() && int32(len(pending)) < missing; index++ {
		if !taken.Has(index) {
			pending = append(pending, index)
		}
	}
	for _, index := range s.withoutBackoff(pending) {
		s.createPod(index)
	}
}

// podsToRemove returns at least n active pods, with all pods of invalid and repeated indexes first
// (activePodsForRemoval).
func (s *jobSync) podsToRemove(n int) []*corev1.Pod {
	byIndex := slices.Clone(s.activePods)
	slices.SortStableFunc(byIndex, func(a, b *corev1.Pod) int { return int(gang.PodIndex(a) - gang.PodIndex(b)) })
	var out, left []*corev1.Pod
	for i, pod := range byIndex {
		index := gang.PodIndex(pod)
		if index >= s.completions() || i > 0 && gang.PodIndex(byIndex[i-1]) == index {
			out = append(out, pod)
		} else {
			left = append(left, pod)
		}
	}
	slices.SortStableFunc(left, func(a, b *corev1.Pod) int { return int(countReady(a) - countReady(b)) })
	return append(out, left[:min(len(left), max(0, n-len(out)))]...)
}

// createPod creates a pod. The status of the same sync counts it.
func (s *jobSync) createPod(index int32) {
	pod := s.c.newPod(s.job, index)
	if s.hasLimitPerIndex() {
		count := int32(0)
		if replaced := s.kept[index]; replaced != nil {
			count = failureCount(replaced)
			if !s.isIgnored(replaced) {
				count++
			}
		}
		pod.Annotations = map[string]string{batchv1.JobIndexFailureCountAnnotation: strconv.Itoa(int(count))}
	}
	s.worker.creations++
	s.active++
	s.steps = append(s.steps, func() error {
		err := s.c.w.fault("job-controller")
		if err == nil {
			_, err = s.c.api.create(pod)
		}
		if err != nil {
			s.worker.creations--
			s.active--
			s.podErr = fmt.Errorf("creating a pod: %w", err)
			return nil
		}
		s.worker.podVersion = s.c.api.versions[podKind]
		return nil
	})
}

// deletePod deletes an active pod. With untrack, it removes the finalizer first, so that the pod is not counted.
func (s *jobSync) deletePod(pod *corev1.Pod, untrack bool) {
	s.active--
	s.ready -= countReady(pod)
	s.terminating++
	s.worker.deletions.Insert(pod.UID)
	s.steps = append(s.steps, func() error {
		var err error
		if untrack && isTracked(pod) {
			err = s.c.removeFinalizer(pod)
		}
		if err == nil {
			err = s.c.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID})
		}
		if err != nil {
			s.worker.deletions.Delete(pod.UID)
		}
		s.podErr = cmp.Or(client.IgnoreNotFound(err), s.podErr)
		return nil
	})
}

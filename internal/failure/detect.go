package failure

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
)

// Context contains what [First] must know about a gang to attribute the failures of its pods. The
// zero value describes the first attempt of a gang that nobody terminates.
type Context struct {
	// Attempt is the number of the current attempt. Pods of earlier attempts are ignored.
	Attempt int32
	// TemplateAttempt is the number of the attempt with which the Job creates pods; 0 if its pods have no number. If
	// somebody else resumed the Job, it is the number of an earlier attempt.
	TemplateAttempt int32
	// LastRestartTime is when the last restart was decided; zero if there was none.
	LastRestartTime time.Time
	// AttemptStartTime is when the ranks of the current attempt were resumed. The two times help to identify
	// the attempt of a pod.
	AttemptStartTime time.Time
	// ResumeTime is when the last member was resumed for the current attempt, at most AttemptStartTime. A manager may
	// observe that late. Before, containers may exit because other members are suspended.
	ResumeTime time.Time
	// ResumedApart is true if somebody else than Rollcall resumed several Jobs, whose start times give ResumeTime.
	ResumedApart bool
	// JobStartTime is when the Job was resumed for the current attempt; zero if it is not known.
	JobStartTime time.Time
	// TrainingContainers names the training containers. An empty list stands for all containers. The
	// exit of another container is a failure of the rank only if the pod fails by it.
	TrainingContainers []string
	// Preflight names the init container that checks the node; empty if there is none.
	Preflight string
	// Terminating is true if pods are deleted because the gang restarts, finishes or is suspended.
	// The deletion of a pod is not a failure then.
	Terminating bool
	// TerminationStartTime is when Rollcall decided to terminate the gang. It is zero if something
	// else terminates the gang. Rollcall looks for the first failure until all pods have terminated.
	TerminationStartTime time.Time
	// IgnoresLostNodes is true if a pod on a lost node is not a failure until Kubernetes deletes the pod.
	IgnoresLostNodes bool
	// UnhealthyPods contains since when pods have had an unhealthy device, if that is a failure.
	UnhealthyPods map[types.UID]time.Time
	// TerminatesStalled is true if the kubelet restarts stalled containers of a Job.
	TerminatesStalled bool
	// OmitOutput leaves out the output of programs. Rollcall still reads it to find the first failure.
	OmitOutput bool
}

// First returns the earliest failure among the pods of one member of a gang. It returns nil if no
// pod failed. The rank of the member's first pod is offset.
func First(pods []corev1.Pod, offset int32, c Context) *Failure {
	return c.Select(c.List(pods, offset))
}

// List returns the failures of the pods of one member, in the order of the pods.
func (c Context) List(pods []corev1.Pod, offset int32) []*Failure {
	var out []*Failure
	for i := range pods {
		if f := c.podFailure(&pods[i]); f != nil {
			f.Rank = offset + gang.PodIndex(&pods[i])
			f.Pod, f.Node = pods[i].Name, pods[i].Spec.NodeName
			out = append(out, f)
		}
	}
	return out
}

// Select returns the earliest of the failures of all members; nil if there are none. Of the stalled ranks, only the
// rank for which the others wait counts.
func (c Context) Select(failures []*Failure) *Failure {
	first := selectStalled(failures)
	for _, f := range failures {
		if f.Reason != ReasonStalled {
			first = EarlierOf(first, f)
		}
	}
	if c.OmitOutput {
		first = first.WithoutOutput()
	}
	return first
}

// podClass determines where the failure of a pod is looked for.
type podClass int

const (
	// podActive is a pod that nobody deletes and that has not failed.
	podActive podClass = iota
	// podFailed is a pod in the phase Failed, or terminated by its kubelet, before anybody deleted it.
	podFailed
	// podDeletedExternally is a pod that somebody deletes for another reason than its gang.
	podDeletedExternally
	// podTerminatingWithGang is a pod that is deleted because its gang restarts, finishes or is
	// suspended.
	podTerminatingWithGang
	// podSucceeded is a pod whose rank succeeded, whether it is being deleted or not.
	podSucceeded
	// podOfEarlierAttempt is a pod that remains from an earlier attempt.
	podOfEarlierAttempt
)

// classifyPod returns the class of a pod.
func (c Context) classifyPod(pod *corev1.Pod) podClass {
	switch {
	case c.IsFromEarlierAttempt(pod):
		return podOfEarlierAttempt
	case RankSucceeded(pod, c.TrainingContainers) && !c.exitedOnDeletion(pod):
		return podSucceeded
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && !c.Terminating:
		return podFailed // by its kubelet; a StatefulSet deletes such a pod at once
	case pod.DeletionTimestamp != nil && (!c.Terminating || IsDisrupted(pod)):
		return podDeletedExternally
	case pod.DeletionTimestamp != nil:
		return podTerminatingWithGang
	case pod.Status.Phase == corev1.PodFailed, isTerminatedByKubelet(pod):
		return podFailed
	default:
		return podActive
	}
}

// HasSucceeded reports whether a pod of the current attempt succeeded and was not deleted before.
func (c Context) HasSucceeded(pod *corev1.Pod) bool { return c.classifyPod(pod) == podSucceeded }

// exitedOnDeletion reports whether the training containers of a pod, which exited with code 0,
// still ran when the deletion of the pod was decided. Programs that save a checkpoint on SIGTERM
// exit with code 0, and have not finished their work. The events of a deletion have this order:
//
//  1. Somebody decides to delete the pod; see terminationDecisionTime. An eviction records the time
//     in the condition DisruptionTarget. Without the condition, the decision is the request to
//     delete.
//  2. The request sets the deletion timestamp, which is the time of the request plus the grace
//     period.
//  3. The containers receive SIGTERM and exit.
//  4. The kubelet confirms the deletion; see IsDeletionConfirmed. The confirmation moves the
//     deletion timestamp to the present, so the time of the request is lost.
//
// After step 4, the decision is known only if the pod has the condition. Otherwise the exit seems
// to precede the decision, and the rank counts as succeeded.
func (c Context) exitedOnDeletion(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	var lastExit time.Time
	for _, s := range pod.Status.ContainerStatuses {
		terminated := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		isTraining := IsTrainingContainer(s.Name, c.TrainingContainers)
		if isTraining && terminated != nil && terminated.FinishedAt.After(lastExit) {
			lastExit = terminated.FinishedAt.Time
		}
	}
	// The clock of the node may be behind. Nobody deletes a pod within seconds of its success.
	return !lastExit.Before(terminationDecisionTime(pod).Add(-deletionTolerance))
}

// podFailure returns the failure of one pod without its rank and name; nil if there is none.
func (c Context) podFailure(pod *corev1.Pod) *Failure {
	class := c.classifyPod(pod)
	switch class {
	case podOfEarlierAttempt:
		return nil // the status already contains its failure
	case podSucceeded:
		return c.failureBeforeSuccess(pod)
	}
	containerFailure := c.attributeToDevice(pod, c.trainingContainerFailure(pod))
	failedBeforeDeletion := containerFailure != nil && !containerFailure.MaybeTerminated
	if class == podDeletedExternally && failedBeforeDeletion {
		// The kubelet may restart a container after the eviction was decided, because it observes the deletion late.
		failedBeforeDeletion = !containerFailure.Time.After(terminationDecisionTime(pod))
	}
	switch class {
	case podDeletedExternally:
		// The peers lost the rank by the deletion, unless a container certainly failed before.
		if !failedBeforeDeletion {
			return EarlierOf(c.lostNodeFailure(pod), deletionFailure(pod))
		}
		return failureOfPhase(pod, containerFailure)
	case podTerminatingWithGang:
		// The pod fails because the gang terminates, unless its node is lost, so that the peers fail because of that, or
		// a container certainly failed before.
		if !failedBeforeDeletion {
			return EarlierOf(c.lostNodeFailure(pod), containerFailure)
		}
		return failureOfPhase(pod, containerFailure)
	case podFailed:
		// The kubelet or a sidecar may have failed the pod before its training containers exited.
		return attributeFailedPod(pod, containerFailure)
	default:
		// A container may have failed while its pod stays active.
		return EarlierOf(EarlierOf(c.lostNodeFailure(pod), c.deviceFailure(pod)), containerFailure)
	}
}

// failureBeforeSuccess returns the failure of a rank whose container ran again in the same pod and succeeded; nil if
// there is none. Its peers lost the container that failed.
func (c Context) failureBeforeSuccess(pod *corev1.Pod) *Failure {
	previous, _ := containerFailures(pod, pod.Status.ContainerStatuses, c.TrainingContainers)
	return c.attributePreviousExit(pod, previous)
}

// deletionFailure returns the failure of a pod that is being deleted.
func deletionFailure(pod *corev1.Pod) *Failure {
	reason, _ := findDisruption(pod)
	return &Failure{Reason: cmp.Or(reason, ReasonPodDeleted), Disrupted: reason != "", Time: terminationDecisionTime(pod)}
}

// failureOfPhase returns the failure of a pod, in the phase Failed or not, whose training container
// failed.
func failureOfPhase(pod *corev1.Pod, containerFailure *Failure) *Failure {
	if pod.Status.Phase == corev1.PodFailed {
		return attributeFailedPod(pod, containerFailure)
	}
	return containerFailure
}

// attributeFailedPod returns the failure of a pod in the phase Failed, or terminated by its kubelet.
// containerFailure is the first failure of its training containers and may be nil. A container that
// exits after the eviction was decided exits because of the eviction.
func attributeFailedPod(pod *corev1.Pod, containerFailure *Failure) *Failure {
	disruptionReason, disruptionTime := findDisruption(pod)
	reason := cmp.Or(disruptionReason, pod.Status.Reason)
	if containerFailure == nil && reason == "" {
		containerFailure = auxiliaryContainerFailure(pod)
	}
	out := &Failure{
		Reason: cmp.Or(reason, ReasonPodFailed), Disrupted: disruptionReason != "",
		Message: TruncateMessage(cmp.Or(pod.Status.Message, disruptionCondition(pod).Message)),
	}
	switch {
	case containerFailure == nil:
		out.Time = cmp.Or(disruptionTime, lastConditionTransitionTime(pod))
	case reason == "" || containerFailure.Time.Before(disruptionTime):
		return containerFailure
	default:
		out.Time = containerFailure.Time
	}
	return out
}

// auxiliaryContainerFailure returns the earliest failure of any container of a pod whose training
// containers did not fail; nil if there is none. A container that ran again did not fail the pod, unless no other has.
func auxiliaryContainerFailure(pod *corev1.Pod) *Failure {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	previous, f := containerFailures(pod, statuses, nil)
	if f == nil {
		f = previous
	}
	if f != nil {
		f.Auxiliary, f.LostPeer = true, false // an auxiliary container has no peers
	}
	return f
}

// trainingContainerFailure returns the earliest failure of a training container that the termination
// of its own pod did not cause; nil if there is none.
func (c Context) trainingContainerFailure(pod *corev1.Pod) *Failure {
	previous, current := containerFailures(pod, pod.Status.ContainerStatuses, c.TrainingContainers)
	previous = EarlierOf(previous, c.silentStall(pod))
	previousCheck, currentCheck := c.preflightFailures(pod)
	return EarlierOf(
		c.attributePreviousExit(pod, EarlierOf(previous, previousCheck)),
		c.attributeCurrentExit(pod, EarlierOf(current, currentCheck)))
}

// attributePreviousExit returns the failure of a container that the kubelet restarted, or will
// restart; nil if the deletion of its pod caused the failure. The kubelet does not restart
// containers of a pod that it knows to be deleted. If something else than Rollcall terminates the
// gang, the kubelet may observe the deletion late, so only the times are compared.
func (c Context) attributePreviousExit(pod *corev1.Pod, f *Failure) *Failure {
	switch {
	case f == nil:
		return nil
	case c.precedesResumption(pod, f.Time):
		return nil // the pod ran on while another member was suspended
	case !c.TerminationStartTime.IsZero():
		return f.markMaybeTerminated(f.Time.After(c.TerminationStartTime))
	case pod.DeletionTimestamp != nil && c.Terminating && !f.Time.Before(DeletionRequestTime(pod)):
		return nil
	default:
		return f
	}
}

// attributeCurrentExit returns the failure of a container that was not restarted; nil if the
// deletion of its pod caused the failure.
func (c Context) attributeCurrentExit(pod *corev1.Pod, f *Failure) *Failure {
	if f == nil || pod.DeletionTimestamp != nil && c.isCausedByDeletion(pod, f) {
		return nil
	}
	return f.markMaybeTerminated(!f.isExternallyCaused() && c.mayFollowTermination(pod, f))
}

// markMaybeTerminated returns a copy of the failure. MaybeTerminated is set if the argument is true.
func (f Failure) markMaybeTerminated(maybeTerminated bool) *Failure {
	f.MaybeTerminated = f.MaybeTerminated || maybeTerminated && f.Reason != ReasonStalled
	return &f
}

// isCausedByDeletion reports whether the deletion of a pod caused the failure of its container.
func (c Context) isCausedByDeletion(pod *corev1.Pod, f *Failure) bool {
	requested := DeletionRequestTime(pod)
	switch {
	case f.Time.After(requested):
		return true
	case f.isExternallyCaused():
		// The deletion timestamp has moved, so only the decision of Rollcall can be compared.
		return IsDeletionConfirmed(pod) && !c.TerminationStartTime.IsZero() && f.Time.After(c.TerminationStartTime)
	case c.TerminationStartTime.IsZero() && c.Terminating:
		return f.Time.Equal(requested)
	case c.TerminationStartTime.IsZero():
		// The time of the exit is by the clock of the node, and the kubelet has not restarted the container.
		return !f.Time.Before(terminationDecisionTime(pod).Add(-deletionTolerance))
	default:
		return c.mayFollowTermination(pod, f) && (f.hasTerminationExitCode() || f.MaybeTerminated)
	}
}

// mayFollowTermination reports whether a container may have exited because Rollcall terminated the
// gang: the container itself received SIGTERM, or it lost a peer that did.
func (c Context) mayFollowTermination(pod *corev1.Pod, f *Failure) bool {
	switch {
	case c.TerminationStartTime.IsZero():
		return false
	case !f.Time.Before(c.TerminationStartTime):
		return true
	case pod.DeletionTimestamp == nil:
		return false
	}
	return f.Time.Equal(DeletionRequestTime(pod)) ||
		IsDeletionConfirmed(pod) && !f.Time.Before(c.TerminationStartTime.Add(-clockTolerance))
}

// containerFailures returns the earliest failures of the named containers, or of all containers if
// there are no names. previous is a failure after which the kubelet restarted the container, or will
// restart it. current is a failure of a container that is terminated now. Either may be nil.
func containerFailures(
	pod *corev1.Pod, statuses []corev1.ContainerStatus, names []string,
) (previous, current *Failure) {
	for _, c := range statuses {
		if !IsTrainingContainer(c.Name, names) {
			continue
		}
		previous = EarlierOf(previous, containerFailure(pod, c.Name, c.LastTerminationState.Terminated))
		current = EarlierOf(current, containerFailure(pod, c.Name, c.State.Terminated))
	}
	return previous, current
}

// containerFailure returns the failure that a terminated state describes. It returns nil for a nil
// state, and for exit code 0 unless the container stalled.
func containerFailure(pod *corev1.Pod, name string, terminated *corev1.ContainerStateTerminated) *Failure {
	if terminated == nil {
		return nil
	}
	finished := terminated.FinishedAt.Time
	if finished.IsZero() { // the kubelet lost the container and reports ContainerStatusUnknown
		if pod.DeletionTimestamp != nil {
			return nil
		}
		finished = lastConditionTransitionTime(pod)
	}
	details := parseTerminationMessage(terminated.Message, finished)
	f := &Failure{
		Container:       name,
		ExitCode:        terminated.ExitCode,
		Reason:          cmp.Or(terminated.Reason, "Error"),
		LostPeer:        details.lostPeer,
		MaybeTerminated: details.receivedSIGTERM,
		DetectedTime:    details.detectedTime,
		Message:         details.message,
		Time:            finished,
	}
	f.markStalled(terminated.Message)
	if f.Message == "" && f.IsLostContainer() {
		f.Message = lostContainerMessage
	}
	if f.ExitCode == 0 && f.Reason != ReasonStalled {
		return nil
	}
	return f
}

// lastConditionTransitionTime returns the latest time at which a condition of the pod changed, or
// the creation time of a pod without conditions.
func lastConditionTransitionTime(pod *corev1.Pod) time.Time {
	latest := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(latest) {
			latest = c.LastTransitionTime.Time
		}
	}
	return latest
}

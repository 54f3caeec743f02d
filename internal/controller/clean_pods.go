package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// cleanUpRetryInterval is the interval at which the deletion of pods is repeated after the API server
// rejected it. The manager usually has no permission to delete pods, and nothing waits for the deletion.
const cleanUpRetryInterval = 10 * time.Minute

// cleanUpPodsOrReport deletes the pods of a finished gang, and reports a rejection of the request once.
func (r *Reconciler) cleanUpPodsOrReport(ctx context.Context, g *observedGang, s lifecycle.State) {
	err := r.cleanUpPods(ctx, g, s)
	if !isRejected(err) {
		g.pass.handleError(err)
		return
	}
	g.pass.requeueAfter(cleanUpRetryInterval)
	r.recordRejection(g, err, cleanUpRetryInterval)
}

// cleanUpPods deletes all pods of a finished gang, including those that have exited, if its
// clean-pod-policy is all. It makes one request per member. Pods that were running are already
// terminated, or are terminating; see [desiredAction].
func (r *Reconciler) cleanUpPods(ctx context.Context, g *observedGang, s lifecycle.State) error {
	if !s.Phase.Terminal() || g.gangPolicies().CleanPodPolicy != gang.CleanPodPolicyAll {
		return nil
	}
	if g.lastState().Phase != s.Phase {
		return nil // the result, which is read from the pods, must be written before they are deleted
	}
	for _, m := range g.Members {
		if m.Job == nil || m.Result == nil || m.observed.NonTerminatingPods == 0 {
			continue // the pods of a StatefulSet are deleted when it is scaled to 0
		}
		if terminatesOwnPods(m.Job) {
			continue // the Job controller deletes them, and the event of the condition causes a pass
		}
		err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(m.Meta().Namespace),
			client.MatchingLabelsSelector{Selector: jobPodSelector(m)})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the pods of %s: %w", m.Meta().Name, err)
		}
		log.FromContext(ctx).Info("Deleted the pods of a finished gang",
			"member", m.Meta().Name, "pods", m.observed.NonTerminatingPods)
	}
	return nil
}

// terminatesOwnPods reports whether a Job has a result and waits for its pods to terminate.
func terminatesOwnPods(job *batchv1.Job) bool {
	hasCondition := func(types ...batchv1.JobConditionType) bool {
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Status == corev1.ConditionTrue && slices.Contains(types, c.Type)
		})
	}
	return hasCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget) &&
		!hasCondition(batchv1.JobComplete, batchv1.JobFailed)
}

// jobPodSelector returns a selector of the pods of one Job. Jobs of other gangs can have the same gang
// name. A UID that is not a valid label value selects nothing.
func jobPodSelector(m member) labels.Selector {
	selector := labels.Set{gang.LabelGang: m.Result.Gang.Name, gang.LabelRole: m.Result.Gang.Role}.AsSelector()
	ownedByJob, err := labels.NewRequirement(batchv1.ControllerUidLabel, selection.Equals, []string{string(m.Job.UID)})
	if err != nil {
		return labels.Nothing()
	}
	return selector.Add(*ownedByJob)
}

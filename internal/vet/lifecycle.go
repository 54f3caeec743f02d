package vet

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

func checkDeadlineBeforeStart(r *reporter, w *labeledWorkload) {
	timeout := w.gang.RestartRules.StartTimeout
	if w.workload.Job == nil || w.workload.Job.Spec.ActiveDeadlineSeconds == nil || timeout == 0 {
		return
	}
	deadline := *w.workload.Job.Spec.ActiveDeadlineSeconds
	if deadline > int64(timeout/time.Second) {
		return
	}
	r.add("spec.activeDeadlineSeconds", "raise it, or lower "+gang.AnnotationStartTimeout,
		"the Job fails after %d s, but the gang may need %s to start", deadline, timeout)
}

func checkBackoffLimitZero(r *reporter, w *labeledWorkload) {
	restartsGang := w.gang.RestartRules.RestartPolicy == gang.RestartPolicyGang
	if w.workload.Job == nil || ptr.Deref(w.workload.Job.Spec.BackoffLimit, 1) != 0 || !restartsGang {
		return
	}
	message := "is 0, so the gang cannot restart, although its restart policy is gang"
	if restarts := w.gang.RestartRules.MaxRestarts; restarts > 0 {
		message = fmt.Sprintf("is 0, so the first pod that the Job counts as failed ends the gang, "+
			"although it may restart %d times", restarts)
	} else if _, ok := w.target.Annotations[gang.AnnotationMaxRestarts]; ok {
		return // The annotation forbids restarts too.
	}
	r.add("spec.backoffLimit", fmt.Sprintf("remove it, or set %s: never", gang.AnnotationRestartPolicy), "%s", message)
}

func checkNeverRestarts(r *reporter, w *labeledWorkload) {
	_, isExplicit := w.target.Annotations[gang.AnnotationRestartPolicy]
	neverRestarts := w.gang.RestartRules.RestartPolicy == gang.RestartPolicyNever
	if w.workload.Job == nil || isExplicit || !neverRestarts {
		return
	}
	r.add("spec.backoffLimit",
		fmt.Sprintf("remove it to restart the gang, or set %s: never", gang.AnnotationRestartPolicy),
		"is 0, so the first failure or disruption, such as a drained node, fails the gang")
}

func checkDisruptionsFailJob(r *reporter, w *labeledWorkload) {
	policies := w.gang.RestartRules
	canRestart := policies.RestartPolicy == gang.RestartPolicyGang && policies.MaxDisruptions != 0
	if w.workload.Job == nil || !canRestart {
		return
	}
	limit := injection.WithoutOwnBackoffLimit(w.workload.Job).Spec.BackoffLimit
	isReported := ptr.Deref(limit, 1) == 0 // by BackoffLimitZero
	if isReported || gang.IsDefaultBackoffLimit(limit) || ignoresDisruptions(w.workload.Job.Spec.PodFailurePolicy) {
		return
	}
	r.add("spec.backoffLimit",
		fmt.Sprintf("remove it, and set %s: %q", gang.AnnotationMaxRestarts, strconv.Itoa(int(policies.MaxRestarts))),
		"is %d, so the Job fails after %s on all ranks, although disruptions use up no restart",
		*limit, gang.FormatCount(int64(*limit)+1, "evicted, deleted or failed pod"))
}

// ignoresDisruptions reports whether the Job does not count pods with the condition DisruptionTarget.
func ignoresDisruptions(policy *batchv1.PodFailurePolicy) bool {
	return policy != nil && slices.ContainsFunc(policy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		isDisruption := func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == corev1.DisruptionTarget
		}
		return r.Action == batchv1.PodFailurePolicyActionIgnore && slices.ContainsFunc(r.OnPodConditions, isDisruption)
	})
}

// secondaryExitCodes are the codes with which ranks exit after the failure of another rank. 1 is the
// code of most programs, the others are the codes of SIGABRT, SIGKILL and SIGTERM.
var secondaryExitCodes = []int32{1, 134, 137, 143}

func checkFailJobOnExitCode(r *reporter, w *labeledWorkload) {
	policies := w.gang.RestartRules
	canRestartGang := policies.RestartPolicy == gang.RestartPolicyGang && policies.MaxRestarts > 0
	if w.workload.Job == nil || w.workload.Job.Spec.PodFailurePolicy == nil || !canRestartGang {
		return
	}
	for i, rule := range w.workload.Job.Spec.PodFailurePolicy.Rules {
		if rule.Action != batchv1.PodFailurePolicyActionFailJob || rule.OnExitCodes == nil {
			continue
		}
		isTrainingContainer := func(c gang.Container) bool { return c.Name == *rule.OnExitCodes.ContainerName }
		if rule.OnExitCodes.ContainerName != nil && !slices.ContainsFunc(w.gang.Containers, isTrainingContainer) {
			continue
		}
		matched := slices.IndexFunc(secondaryExitCodes, func(code int32) bool {
			isListed := slices.Contains(rule.OnExitCodes.Values, code)
			return isListed == (rule.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn)
		})
		if matched < 0 {
			continue
		}
		r.add(fmt.Sprintf("spec.podFailurePolicy.rules[%d].onExitCodes", i),
			fmt.Sprintf("remove the rule, and set %s", gang.AnnotationNonRetriableExitCodes),
			"the first pod that exits with %d fails the Job, although the gang may restart %d times",
			secondaryExitCodes[matched], policies.MaxRestarts)
	}
}

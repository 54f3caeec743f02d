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

func lifecycleChecks() []Check {
	return []Check{
		{
			Code: CodeDeadlineBeforeStart, Severity: Warning, checkGang: checkDeadlineBeforeStart,
			Title: "The deadline of the Job is not later than the start timeout",
			Why: "`activeDeadlineSeconds` counts from the start of the Job and includes the time until all ranks are ready. " +
				"Kubernetes fails the Job before Rollcall detects the slow start, so the gang is not restarted.",
			Fix: "Raise `activeDeadlineSeconds`, or lower the annotation `" + gang.AnnotationStartTimeout + "`.",
		},
		{
			Code: CodeBackoffLimitZero, Severity: Warning, checkGang: checkBackoffLimitZero,
			Title: "The gang restarts, but backoffLimit is 0",
			Why: "With `backoffLimit: 0`, the first pod that the Job counts as failed also fails the Job, " +
				"before Rollcall can restart the gang. Evicted and deleted pods count. " +
				"Before Kubernetes 1.35, every failed pod counts.",
			Fix: "Remove `backoffLimit`, and limit the restarts with the annotation `" + gang.AnnotationMaxRestarts + "`. " +
				"Or set `" + gang.AnnotationRestartPolicy + ": never`.",
		},
		{
			Code: CodeNeverRestarts, Severity: Info, checkGang: checkNeverRestarts,
			Title: "The gang never restarts, because backoffLimit is 0",
			Why: "The API server never sets `backoffLimit: 0`, so Rollcall derives `" + gang.AnnotationRestartPolicy +
				": never` from it. The first failure fails the gang, and so does the first disruption, such as a drained node.",
			Fix: "Remove `backoffLimit` to restart all ranks together. " +
				"Or set `" + gang.AnnotationRestartPolicy + ": never` if the gang must not restart.",
		},
		{
			Code: CodeDisruptionsFailJob, Severity: Warning, checkGang: checkDisruptionsFailJob,
			Title: "The gang restarts after disruptions, but backoffLimit counts them",
			Why: "Disruptions such as drains and preemptions use up no restart of the gang. " +
				"But a `backoffLimit` of your own stays, and the Job counts every pod that is evicted or deleted, on all ranks. " +
				"After more than `backoffLimit` pods, Kubernetes fails the Job, and Rollcall cannot restart it. " +
				"Rollcall replaces the values 6 and 2147483647, which are defaults of the API server.",
			Fix: "Remove `backoffLimit`, and limit the restarts with the annotation `" + gang.AnnotationMaxRestarts + "`. " +
				"Limit the disruptions with `" + gang.AnnotationMaxDisruptions + "`.",
		},
		{
			Code: CodeFailJobOnExitCode, Severity: Warning, checkGang: checkFailJobOnExitCode,
			Title: "A podFailurePolicy fails the Job instead of a restart of the gang",
			Why: "Kubernetes evaluates a rule with `FailJob` for every failed pod, not only for the first failure. " +
				"Ranks that lose a peer, and ranks that Rollcall terminates for a restart, often exit with 1 " +
				"or with the code of a signal (134, 137 or 143). " +
				"A rule for these codes fails the Job, although the gang may be restarted.",
			Fix: "Remove the rule. List the exit codes in the annotation `" + gang.AnnotationNonRetriableExitCodes + "`, " +
				"which Rollcall compares only with the first failure.",
		},
		{
			Code: CodeShortTTL, Severity: Info, checkGang: checkShortTTL,
			Title: "The Job is deleted within a minute after it finishes",
			Why: "Kubernetes deletes the Job with its pods, their logs and the status of the gang. " +
				"People and log collectors may not have read them yet.",
			Fix: "Raise `ttlSecondsAfterFinished` to at least one hour.",
		},
	}
}

// minTTLSeconds is the lowest TTL without a finding. Log collectors commonly read once a minute.
const minTTLSeconds = 60

func checkDeadlineBeforeStart(_ *input, w *labeledWorkload) []issue {
	timeout := w.gang.Policies.StartTimeout
	if w.workload.Job == nil || w.workload.Job.Spec.ActiveDeadlineSeconds == nil || timeout == 0 {
		return nil
	}
	deadline := *w.workload.Job.Spec.ActiveDeadlineSeconds
	if deadline > int64(timeout/time.Second) {
		return nil
	}
	return []issue{{
		field:   "spec.activeDeadlineSeconds",
		message: fmt.Sprintf("the Job fails after %d s, but the gang may need %s to start", deadline, timeout),
		fix:     "raise it, or lower " + gang.AnnotationStartTimeout,
	}}
}

func checkBackoffLimitZero(_ *input, w *labeledWorkload) []issue {
	restartsGang := w.gang.Policies.RestartPolicy == gang.RestartPolicyGang
	if w.workload.Job == nil || ptr.Deref(w.workload.Job.Spec.BackoffLimit, 1) != 0 || !restartsGang {
		return nil
	}
	message := "is 0, so the gang cannot restart, although its restart policy is gang"
	if restarts := w.gang.Policies.MaxRestarts; restarts > 0 {
		message = fmt.Sprintf("is 0, so the first pod that the Job counts as failed ends the gang, "+
			"although it may restart %d times", restarts)
	} else if _, ok := w.target.Annotations[gang.AnnotationMaxRestarts]; ok {
		return nil // The annotation forbids restarts too.
	}
	return []issue{{
		field:   "spec.backoffLimit",
		message: message,
		fix:     fmt.Sprintf("remove it, or set %s: never", gang.AnnotationRestartPolicy),
	}}
}

func checkNeverRestarts(_ *input, w *labeledWorkload) []issue {
	_, isExplicit := w.target.Annotations[gang.AnnotationRestartPolicy]
	neverRestarts := w.gang.Policies.RestartPolicy == gang.RestartPolicyNever
	if w.workload.Job == nil || isExplicit || !neverRestarts {
		return nil
	}
	return []issue{{
		field:   "spec.backoffLimit",
		message: "is 0, so the first failure or disruption, such as a drained node, fails the gang",
		fix:     fmt.Sprintf("remove it to restart the gang, or set %s: never", gang.AnnotationRestartPolicy),
	}}
}

func checkDisruptionsFailJob(_ *input, w *labeledWorkload) []issue {
	policies := w.gang.Policies
	canRestart := policies.RestartPolicy == gang.RestartPolicyGang && policies.MaxDisruptions != 0
	if w.workload.Job == nil || !canRestart {
		return nil
	}
	limit := injection.WithoutOwnBackoffLimit(w.workload.Job).Spec.BackoffLimit
	isReported := ptr.Deref(limit, 1) == 0 // by CodeBackoffLimitZero
	if isReported || gang.IsDefaultBackoffLimit(limit) || ignoresDisruptions(w.workload.Job.Spec.PodFailurePolicy) {
		return nil
	}
	return []issue{{
		field: "spec.backoffLimit",
		message: fmt.Sprintf("is %d, so the Job fails after %s on all ranks, although disruptions use up no restart",
			*limit, gang.FormatCount(int64(*limit)+1, "evicted, deleted or failed pod")),
		fix: fmt.Sprintf("remove it, and set %s: %q", gang.AnnotationMaxRestarts, strconv.Itoa(int(policies.MaxRestarts))),
	}}
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

func checkShortTTL(_ *input, w *labeledWorkload) []issue {
	if w.workload.Job == nil || w.workload.Job.Spec.TTLSecondsAfterFinished == nil {
		return nil
	}
	ttl := *w.workload.Job.Spec.TTLSecondsAfterFinished
	if ttl < 0 || ttl >= minTTLSeconds {
		return nil
	}
	return []issue{{
		field:   "spec.ttlSecondsAfterFinished",
		message: fmt.Sprintf("the Job is deleted %d s after it finishes, with its pods, logs and status", ttl),
		fix:     "raise it to at least 3600",
	}}
}

// secondaryExitCodes are the codes with which ranks exit after the failure of another rank. 1 is the
// code of most programs, the others are the codes of SIGABRT, SIGKILL and SIGTERM.
var secondaryExitCodes = []int32{1, 134, 137, 143}

func checkFailJobOnExitCode(_ *input, w *labeledWorkload) []issue {
	policies := w.gang.Policies
	canRestartGang := policies.RestartPolicy == gang.RestartPolicyGang && policies.MaxRestarts > 0
	if w.workload.Job == nil || w.workload.Job.Spec.PodFailurePolicy == nil || !canRestartGang {
		return nil
	}
	var issues []issue
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
		issues = append(issues, issue{
			field: fmt.Sprintf("spec.podFailurePolicy.rules[%d].onExitCodes", i),
			message: fmt.Sprintf("the first pod that exits with %d fails the Job, although the gang may restart %d times",
				secondaryExitCodes[matched], policies.MaxRestarts),
			fix: fmt.Sprintf("remove the rule, and set %s", gang.AnnotationNonRetriableExitCodes),
		})
	}
	return issues
}

package vet

import (
	"time"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

func ofLife() []Check {
	return []Check{
		{
			Code: CodeDeadlineBeforeStart, Severity: Warning, gang: deadlineBeforeStart,
			Title: "The Job's deadline is not later than the start-timeout",
			Why:   "`activeDeadlineSeconds` counts from the start of the Job, the time until all ranks are ready included. The Job is then failed by Kubernetes before Rollcall may say that the start took too long, and nothing is restarted.",
			Fix:   "Raise `activeDeadlineSeconds`, or lower the start-timeout.",
		},
		{
			Code: CodeNoBackoff, Severity: Warning, gang: noBackoff,
			Title: "The gang shall restart, and the Job forbids a failed pod",
			Why:   "With `backoffLimit: 0` the first pod that the Job counts as failed ends it, before the gang is restarted: one that was evicted or deleted, and before Kubernetes 1.35 each one that fails.",
			Fix:   "Remove `backoffLimit`, and bound the restarts with the annotation `" + gang.AnnotationMaxRestarts + "`; or set `" + gang.AnnotationRestartPolicy + ": never`.",
		},
		{
			Code: CodeShortTTL, Severity: Advice, gang: shortTTL,
			Title: "The Job is deleted within a minute of its end",
			Why:   "With it go its pods, their logs, the phase and the first cause of a failure, before anybody looks.",
			Fix:   "Raise `ttlSecondsAfterFinished` to an hour or a day.",
		},
	}
}

// shortTTL bounds what is too short for a person, or a collector of logs that looks each
// minute.
const shortTTLSeconds = 60

func deadlineBeforeStart(_ *input, m *member) []remark {
	timeout := m.gang.Lifecycle.StartTimeout
	if m.written.Job == nil || m.written.Job.Spec.ActiveDeadlineSeconds == nil || timeout == 0 {
		return nil
	}
	deadline := *m.written.Job.Spec.ActiveDeadlineSeconds
	if deadline > int64(timeout/time.Second) {
		return nil
	}
	return say("spec.activeDeadlineSeconds", "the Job ends after %d s, and the start may take %s", deadline, timeout).
		do("raise it, or lower %s", gang.AnnotationStartTimeout)
}

func noBackoff(_ *input, m *member) []remark {
	_, bounded := m.read.Annotations[gang.AnnotationMaxRestarts]
	restarts := m.gang.Lifecycle.MaxRestarts
	switch {
	case m.written.Job == nil || ptr.Deref(m.written.Job.Spec.BackoffLimit, 1) != 0 || m.gang.Lifecycle.Restart != gang.RestartGang:
		return nil
	case restarts == 0 && bounded:
		return nil // it says twice that it shall not
	case restarts == 0:
		return say("spec.backoffLimit", "the gang shall restart, and this leaves it no restart").
			do("remove it, or set %s: never", gang.AnnotationRestartPolicy)
	}
	return say("spec.backoffLimit", "the gang may restart %d times, and the first pod that the Job counts as failed ends it", restarts).
		do("remove it, or set %s: never", gang.AnnotationRestartPolicy)
}

func shortTTL(_ *input, m *member) []remark {
	if m.written.Job == nil || m.written.Job.Spec.TTLSecondsAfterFinished == nil {
		return nil
	}
	ttl := *m.written.Job.Spec.TTLSecondsAfterFinished
	if ttl < 0 || ttl >= shortTTLSeconds {
		return nil
	}
	return say("spec.ttlSecondsAfterFinished", "the Job is deleted %d s after its end, and pods, logs and cause with it", ttl).do("raise it to 3600 or more")
}

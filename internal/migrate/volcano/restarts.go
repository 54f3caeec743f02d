package volcano

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// failureEffects are the effects of failures in one task on the gang.
type failureEffects struct {
	onFailure, onEviction gangEffect
	// explicit is true if a policy applies to failures, and false if the restart policy of the
	// pods decides.
	explicit bool
}

// resolveFailureEffects returns the effects of the policies for a task. Without a policy, Volcano does
// not replace a failed pod, which fails the job when all others have finished. The kubelet restarts
// containers, and Volcano recreates an evicted pod.
func (r *reader) resolveFailureEffects(t task, restartPolicy corev1.RestartPolicy) failureEffects {
	var e failureEffects
	e.onFailure, _ = effectOf(r.actionForEvent(t, eventPodFailed))
	e.onEviction, _ = effectOf(r.actionForEvent(t, eventPodEvicted))
	e.explicit = e.onFailure != effectNone
	switch {
	case e.explicit:
	case restartPolicy == corev1.RestartPolicyNever:
		e.onFailure = effectFail
	default:
		e.onFailure = effectRestart
	}
	return e
}

// restarts reports whether some failure restarts the gang.
func (e failureEffects) restarts() bool {
	return e.onFailure == effectRestart || e.onEviction == effectRestart
}

// failsByPolicy reports whether a policy lets a failure fail the gang. A failure without any policy does
// not count, because no user asked for it.
func (e failureEffects) failsByPolicy() bool { return e.explicit && e.onFailure == effectFail }

// convertRestarts determines which failures restart the gang. Volcano decides for each task, and a
// gang restarts as a unit. If some failures restart the gang and others do not, the non-retriable exit
// codes of the gang make the difference.
func (r *reader) convertRestarts() {
	effects, anyRestart := make([]failureEffects, len(r.tasks)), false
	for i, t := range r.tasks {
		effects[i] = r.resolveFailureEffects(t, r.gang.Roles[i].Template.Spec.RestartPolicy)
		anyRestart = anyRestart || effects[i].restarts()
	}
	if anyRestart {
		r.setFatalFailures(effects)
	} else {
		r.gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
	}
	for i := range r.tasks {
		role := &r.gang.Roles[i]
		former := role.Template.Spec.RestartPolicy
		if !anyRestart || effects[i].failsByPolicy() {
			role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		r.reportRestartPolicy(role, effects[i], former)
	}
	r.convertMaxRetry()
}

// allExitCodes are the exit codes of a failed container.
const allExitCodes = "1-255"

// setFatalFailures sets the annotations with which a failure or an eviction fails a gang that restarts
// otherwise: those that fail it in all tasks. An evicted pod does not fail by its exit code (docs/adr/0006).
func (r *reader) setFatalFailures(effects []failureEffects) {
	fatal, evictionIsFatal := 0, true
	for _, e := range effects {
		if e.failsByPolicy() {
			fatal++
		}
		evictionIsFatal = evictionIsFatal && e.onEviction == effectFail
	}
	if evictionIsFatal {
		r.gang.SetAnnotation(gang.AnnotationMaxDisruptions, "0")
	}
	switch fatal {
	case 0:
	case len(effects):
		r.gang.SetAnnotation(gang.AnnotationNonRetriableExitCodes, allExitCodes)
	default:
		r.spec.Get("tasks").AddNoteWithOutcome(source.Dropped, "",
			"the tasks differ in the failures that fail the job; a gang has one rule, and these failures restart it",
			"set "+gang.AnnotationNonRetriableExitCodes+" to the exit codes that must fail the gang")
	}
}

// reportRestartPolicy records the outcome of the restart policy of the pods, whose former value is
// given.
func (r *reader) reportRestartPolicy(role *ir.Role, e failureEffects, former corev1.RestartPolicy) {
	const gangRestart = "annotation " + gang.AnnotationRestartPolicy + ": gang, the default"
	const notReplaced = "without a policy Volcano does not replace a failed pod, and its peers block or fail; "
	f, now := role.Source.At("spec", "restartPolicy"), role.Template.Spec.RestartPolicy
	isStatefulSet := role.StatefulSet && r.gang.RoleJobReason(*role) == ""
	switch {
	case isStatefulSet && e.explicit:
		if former != corev1.RestartPolicyAlways {
			f.MarkChanged("Always", "it is the only value for a StatefulSet; the policies decide when a rank fails", "")
		}
	case former != corev1.RestartPolicyNever && now == corev1.RestartPolicyNever:
		f.MarkChanged("Never", "the policies apply to failed pods, and a pod whose containers restart does not fail", "")
	case e.explicit && former == corev1.RestartPolicyAlways:
		f.MarkChanged("OnFailure", "a rank that succeeds is not restarted", "")
	case e.explicit:
	case now != corev1.RestartPolicyNever:
		f.MarkChanged(gangRestart,
			"the kubelet restarts only the failed container, and its peers block or fail; Rollcall restarts all ranks together",
			"set "+gang.AnnotationRestartPolicy+": pod for the previous behavior")
	case r.gang.NeverRestarts():
		f.MarkChanged("annotation "+gang.AnnotationRestartPolicy+": never",
			notReplaced+"Rollcall fails the gang at once, also after an eviction",
			"remove the annotation to restart all ranks together")
	default:
		f.MarkChanged(gangRestart,
			notReplaced+"Rollcall restarts all ranks together, as after the failures with a policy", "")
	}
}

// defaultMaxRetry is Volcano's default of maxRetry.
const defaultMaxRetry = 3

// convertMaxRetry converts the maximum number of restarts.
func (r *reader) convertMaxRetry() {
	f := r.spec.Get("maxRetry")
	switch limit := ptr.Deref(f.Int32(), 0); {
	case limit == 0:
		f.MarkHandled() // the default of 3, which Rollcall has too
	case r.gang.NeverRestarts():
		f.MarkLeftOut("no failure restarts the gang")
	default:
		r.setMaxRestarts(limit)
		f.MarkChanged("annotation "+gang.AnnotationMaxRestarts, fmt.Sprintf("Volcano fails the job instead of restart %d; "+
			"Rollcall allows that restart, and counts one for all ranks that fail together", limit), "")
	}
	for _, t := range r.tasks {
		f, noPolicy := t.field.Get("maxRetry"), r.actionForEvent(t, eventTaskFailed) == ""
		switch limit := ptr.Deref(f.Int32(), 0); {
		case limit == 0 || limit == defaultMaxRetry && noPolicy:
			f.MarkHandled() // the value that Volcano's webhook sets
		case r.gang.NeverRestarts() || noPolicy:
			f.MarkLeftOut("it applies only to the event TaskFailed, which has no policy")
		default:
			f.MarkDropped("it counts the restarts of the containers of a task, and a gang counts its own",
				"set "+gang.AnnotationMaxRestarts)
		}
	}
}

// setMaxRestarts sets the maximum number of restarts of the gang. A negative number means no limit.
func (r *reader) setMaxRestarts(limit int32) {
	if limit < 0 {
		limit = gang.MaxRestarts
	}
	r.gang.SetAnnotation(gang.AnnotationMaxRestarts, fmt.Sprint(min(limit, gang.MaxRestarts)))
}

package volcano

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// failureEffects are the effects of failures in one task on the gang.
type failureEffects struct {
	onFailure, onEviction gangEffect
	// byExitCode are the effects of exit codes with their own policy.
	byExitCode map[int32]gangEffect
	// explicit is true if a policy applies to failures, and false if the restart policy of the
	// pods decides.
	explicit bool
}

// resolveFailureEffects returns the effects of the policies for a task. Without a policy, Volcano does
// not replace a failed pod, which fails the job when all others have finished. The kubelet restarts
// containers, and Volcano recreates an evicted pod.
func (r *reader) resolveFailureEffects(t task, restartPolicy corev1.RestartPolicy) failureEffects {
	e := failureEffects{byExitCode: map[int32]gangEffect{}}
	e.onFailure, _ = effectOf(r.actionForEvent(t, eventPodFailed))
	e.onEviction, _ = effectOf(r.actionForEvent(t, eventPodEvicted))
	for code, action := range r.actionsForExitCodes(t) {
		if effect, _ := effectOf(action); effect != effectNone {
			e.byExitCode[code] = effect
		}
	}
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
	return e.onFailure == effectRestart || e.onEviction == effectRestart || len(e.codesWithEffect(effectRestart)) > 0
}

// decidedByPolicies reports whether a policy, and not the restart policy of the pods, determines the
// effect of failures.
func (e failureEffects) decidedByPolicies() bool { return e.explicit || len(e.byExitCode) > 0 }

// failsByDefault reports whether a failure fails the gang unless its exit code has another effect. A
// failure without any policy does not count, because no user asked for it.
func (e failureEffects) failsByDefault() bool {
	return e.onFailure == effectFail && e.decidedByPolicies()
}

// codesWithEffect returns the exit codes with their own policy of an effect, sorted.
func (e failureEffects) codesWithEffect(effect gangEffect) []int32 {
	var codes []int32
	for _, code := range slices.Sorted(maps.Keys(e.byExitCode)) {
		if e.byExitCode[code] == effect {
			codes = append(codes, code)
		}
	}
	return codes
}

// maxExitCode is the maximum exit code of a container.
const maxExitCode = 255

// nonRetriableCodes returns the exit codes that fail the gang, sorted.
func (e failureEffects) nonRetriableCodes() []int32 {
	if !e.failsByDefault() {
		return e.codesWithEffect(effectFail)
	}
	var codes []int32
	for code := int32(1); code <= maxExitCode; code++ {
		if e.byExitCode[code] != effectRestart {
			codes = append(codes, code)
		}
	}
	return codes
}

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
		r.setNonRetriableCodes(effects)
		r.setMaxDisruptions(effects)
	} else {
		r.gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
	}
	for i := range r.tasks {
		role := &r.gang.Roles[i]
		former := role.Template.Spec.RestartPolicy
		if !anyRestart || len(effects[i].nonRetriableCodes()) > 0 {
			role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		r.reportRestartPolicy(role, effects[i], former)
	}
	r.convertMaxRetry()
}

// setNonRetriableCodes sets the annotation with the exit codes that fail the gang. A gang has one list,
// and it applies to the rank that failed first. If the tasks differ, the list has the codes that fail
// the gang in all tasks. An evicted pod does not fail by its exit code (docs/adr/0006).
func (r *reader) setNonRetriableCodes(effects []failureEffects) {
	codes, differ := effects[0].nonRetriableCodes(), false
	for _, e := range effects[1:] {
		own := e.nonRetriableCodes()
		differ = differ || !slices.Equal(own, codes)
		codes = slices.DeleteFunc(codes, func(code int32) bool { return !slices.Contains(own, code) })
	}
	if len(codes) > 0 {
		r.gang.SetAnnotation(gang.AnnotationNonRetriableExitCodes, formatRanges(codes))
	}
	if differ {
		r.spec.Get("tasks").AddNoteWithOutcome(source.Dropped, "",
			"the tasks differ in the exit codes that fail the job; a gang has one list, and the other failures restart it",
			"set "+gang.AnnotationNonRetriableExitCodes+" to the exit codes that must fail the gang")
	}
}

// setMaxDisruptions sets the annotation with which an eviction fails the gang, if it failed the job in all tasks.
func (r *reader) setMaxDisruptions(effects []failureEffects) {
	if !slices.ContainsFunc(effects, func(e failureEffects) bool { return e.onEviction != effectFail }) {
		r.gang.SetAnnotation(gang.AnnotationMaxDisruptions, "0")
	}
}

// formatRanges formats sorted codes for the annotation: 1-2,4-255.
func formatRanges(codes []int32) string {
	var ranges []string
	for i := 0; i < len(codes); {
		last := i
		for last+1 < len(codes) && codes[last+1] == codes[last]+1 {
			last++
		}
		text := fmt.Sprint(codes[i])
		if last > i {
			text += fmt.Sprintf("-%d", codes[last])
		}
		ranges, i = append(ranges, text), last+1
	}
	return strings.Join(ranges, ",")
}

// reportRestartPolicy records the outcome of the restart policy of the pods, whose former value is
// given.
func (r *reader) reportRestartPolicy(role *ir.Role, e failureEffects, former corev1.RestartPolicy) {
	const gangRestart = "annotation " + gang.AnnotationRestartPolicy + ": gang, the default"
	const notReplaced = "without a policy Volcano does not replace a failed pod, and its peers block or fail; "
	f, now := role.Source.At("spec", "restartPolicy"), role.Template.Spec.RestartPolicy
	isStatefulSet := role.StatefulSet && r.gang.RoleJobReason(*role) == ""
	switch {
	case isStatefulSet && e.decidedByPolicies():
		if former != corev1.RestartPolicyAlways {
			f.MarkChanged("Always", "it is the only value for a StatefulSet; the policies decide when a rank fails", "")
		}
	case former != corev1.RestartPolicyNever && now == corev1.RestartPolicyNever:
		f.MarkChanged("Never", "the policies apply to failed pods, and a pod whose containers restart does not fail", "")
	case e.explicit && former == corev1.RestartPolicyAlways:
		f.MarkChanged("OnFailure", "a rank that succeeds is not restarted", "")
	case e.decidedByPolicies():
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

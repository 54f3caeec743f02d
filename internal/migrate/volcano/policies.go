package volcano

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// lifecyclePolicy is a lifecycle policy of Volcano: an action for some events, or for an exit code.
type lifecyclePolicy struct {
	field  source.Field
	action string
	// events are empty for a policy with an exit code, which has no counterpart.
	events []string
}

// The events of a policy that a gang has (volcano.sh/apis, pkg/apis/bus/v1alpha1/events.go).
const (
	eventAny           = "*"
	eventPodFailed     = "PodFailed"
	eventPodEvicted    = "PodEvicted"
	eventTaskCompleted = "TaskCompleted"
)

// Actions with a meaning of their own.
const (
	actionRestartJob   = "RestartJob"
	actionTerminateJob = "TerminateJob"
	actionCompleteJob  = "CompleteJob"
)

// The effects of an event on a gang. The text of an event without an effect is empty.
const effectRestart, effectFail = "restart", "fail"

// actionEffects are the effects of the actions (volcano.sh/apis, pkg/apis/bus/v1alpha1/actions.go) after a
// failure. Completing a job after a failure fails the gang.
var actionEffects = map[string]string{
	actionRestartJob: effectRestart, "RestartTask": effectRestart, "RestartPod": effectRestart,
	"RestartPartition": effectRestart, "AbortJob": effectFail, actionTerminateJob: effectFail,
	actionCompleteJob: effectFail,
}

// readPolicies returns the policies of a list. The caller records their outcomes.
func readPolicies(list source.Field) []lifecyclePolicy {
	var policies []lifecyclePolicy
	for _, f := range list.Items() {
		f.ReportUnreadExcept("action", "event", "events", "exitCode", "timeout")
		p := lifecyclePolicy{field: f, action: f.Get("action").String(), events: f.Get("events").Strings()}
		if event := f.Get("event").String(); event != "" {
			p.events = append(p.events, event)
		}
		policies = append(policies, p)
	}
	return policies
}

// actionForEvent returns the action for an event in a task, or "". Policies of the task precede those
// of the job, and the first match applies (volcano, applyPolicies).
func (r *reader) actionForEvent(t task, event string) string {
	for _, p := range slices.Concat(t.policies, r.jobPolicies) {
		if slices.Contains(p.events, event) || event != eventTaskCompleted && slices.Contains(p.events, eventAny) {
			return p.action
		}
	}
	return ""
}

// convertPolicies converts the policies of the job and its tasks.
func (r *reader) convertPolicies() {
	r.jobPolicies = readPolicies(r.spec.Get("policies"))
	r.convertRestarts()
	r.convertSuccess()
	for _, p := range r.jobPolicies {
		r.reportPolicy(p)
	}
	for _, t := range r.tasks {
		for _, p := range t.policies {
			r.reportPolicy(p)
		}
	}
}

// reportPolicy records what the gang does instead of a policy.
func (r *reader) reportPolicy(p lifecyclePolicy) {
	for _, event := range p.events {
		isFailure := slices.Contains([]string{eventPodFailed, eventPodEvicted, eventAny}, event)
		effect, to := r.effectOf(event)
		switch {
		case event == eventTaskCompleted && p.action == actionCompleteJob:
			r.reportCompletionPolicy(p.field)
		case !isFailure:
			p.field.MarkDropped(fmt.Sprintf("a gang has no counterpart of %s after %s", p.action, event),
				fmt.Sprintf("see %s, %s and %s", gang.AnnotationNonRetriableExitCodes, gang.AnnotationStartTimeout,
					gang.AnnotationSuccessPolicy))
		case actionEffects[p.action] != effect:
			p.field.MarkDropped("a gang has one rule for all tasks: "+to, fmt.Sprintf(
				"set %s to the exit codes that must fail the gang, and %s: 0 if an eviction must",
				gang.AnnotationNonRetriableExitCodes, gang.AnnotationMaxDisruptions))
		case event != eventAny && (p.action == actionRestartJob || p.action == actionTerminateJob):
			p.field.MarkPreserved(to)
		default:
			p.field.MarkChanged(to, "a gang restarts or fails as a unit, and only after a failure or an eviction", "")
		}
		if isFailure {
			p.field.Get("timeout").MarkDropped("Rollcall reacts without a delay", "")
		}
	}
	if len(p.events) == 0 {
		p.field.MarkDropped("a policy for an exit code has no counterpart",
			"set "+gang.AnnotationNonRetriableExitCodes+" to the exit codes that must fail the gang")
	}
}

// effectOf returns the effect of a failure or an eviction on the gang, and its place in the result.
func (r *reader) effectOf(event string) (effect, to string) {
	switch {
	case r.gang.NeverRestarts():
		return effectFail, "annotation " + gang.AnnotationRestartPolicy + ": never"
	case event == eventPodFailed && r.gang.RollcallAnnotations[gang.AnnotationNonRetriableExitCodes] != "":
		return effectFail, "annotation " + gang.AnnotationNonRetriableExitCodes
	}
	return effectRestart, "annotation " + gang.AnnotationRestartPolicy + ": gang, the default: all ranks restart"
}

// convertRestarts determines which failures restart the gang. Volcano decides for each task, and a gang
// restarts as a unit: it never restarts if no task does, and all exit codes fail it if the policies of all
// tasks do. Without a policy, the kubelet restarts containers, and Volcano does not replace a failed pod.
func (r *reader) convertRestarts() {
	failures, anyRestart := make([]string, len(r.tasks)), false
	for i, t := range r.tasks {
		failures[i] = actionEffects[r.actionForEvent(t, eventPodFailed)]
		anyRestart = anyRestart || failures[i] == effectRestart ||
			failures[i] == "" && r.gang.Roles[i].Template.Spec.RestartPolicy != corev1.RestartPolicyNever ||
			actionEffects[r.actionForEvent(t, eventPodEvicted)] == effectRestart
	}
	if !anyRestart {
		r.gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
	} else if !slices.ContainsFunc(failures, func(e string) bool { return e != effectFail }) {
		r.gang.SetAnnotation(gang.AnnotationNonRetriableExitCodes, "1-255")
	}
	for i := range r.tasks {
		role := &r.gang.Roles[i]
		former := role.Template.Spec.RestartPolicy
		if !anyRestart || failures[i] == effectFail {
			role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		r.reportRestartPolicy(role, failures[i] != "", former)
	}
	r.convertMaxRetry()
}

// reportRestartPolicy records the outcome of the restart policy of the pods, whose former value is
// given. It is explicit that a policy applies to failures.
func (r *reader) reportRestartPolicy(role *ir.Role, explicit bool, former corev1.RestartPolicy) {
	const notReplaced = "without a policy Volcano does not replace a failed pod, and its peers block or fail"
	f, now := role.Source.At("spec", "restartPolicy"), role.Template.Spec.RestartPolicy
	_, to := r.effectOf(eventPodFailed)
	switch {
	case explicit && former == now && former != corev1.RestartPolicyAlways && !role.StatefulSet:
	case explicit:
		f.MarkChanged(to, "the policies determine when a rank restarts", "")
	case former != corev1.RestartPolicyNever:
		f.MarkChanged(to, "the kubelet restarts only the failed container, and its peers block or fail",
			"set "+gang.AnnotationRestartPolicy+": pod for the previous behavior")
	case r.gang.NeverRestarts():
		f.MarkChanged(to, notReplaced+"; Rollcall fails the gang at once, also after an eviction",
			"remove the annotation to restart all ranks together")
	default:
		f.MarkChanged(to, notReplaced, "")
	}
}

// convertMaxRetry converts the maximum number of restarts. 0 is the default of 3, which Rollcall has too.
func (r *reader) convertMaxRetry() {
	f := r.spec.Get("maxRetry")
	switch limit := ptr.Deref(f.Int32(), 0); {
	case limit == 0:
		f.MarkHandled()
	case r.gang.NeverRestarts():
		f.MarkLeftOut("no failure restarts the gang")
	default:
		if limit < 0 { // no limit
			limit = gang.MaxRestarts
		}
		r.gang.SetAnnotation(gang.AnnotationMaxRestarts, fmt.Sprint(min(limit, gang.MaxRestarts)))
		f.MarkChanged("annotation "+gang.AnnotationMaxRestarts, fmt.Sprintf("Volcano fails the job instead of restart %d; "+
			"Rollcall allows that restart, and counts one for all ranks that fail together", limit), "")
	}
}

// convertSuccess determines the roles whose success completes the gang. In Volcano, policies name the
// tasks, and without such a policy all pods must succeed.
func (r *reader) convertSuccess() {
	if completing := r.listCompletingRoles(); len(completing) > 0 {
		r.setCompletionRole(r.selectCompletionRole(completing))
		return
	}
	// All ranks determine completion, except for the workers of a launcher, which never finish.
	if !r.isSingleWorkload() && !r.framework.HasLauncher &&
		slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool { return r.determinesCompletion(role.Name) }) {
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
	}
}

// listCompletingRoles returns the roles whose completion completes the job.
func (r *reader) listCompletingRoles() []string {
	var roles []string
	for i, t := range r.tasks {
		if r.actionForEvent(t, eventTaskCompleted) == actionCompleteJob {
			roles = append(roles, r.gang.Roles[i].Name)
		}
	}
	return roles
}

// determinesCompletion reports whether the framework completes a gang when the role completes.
func (r *reader) determinesCompletion(role string) bool {
	frameworkRole, _ := r.framework.FindRole(role)
	return frameworkRole.DeterminesCompletion
}

// selectCompletionRole returns the role that determines completion: the framework's, or the one with
// rank 0.
func (r *reader) selectCompletionRole(roles []string) string {
	return roles[max(0, slices.IndexFunc(roles, r.determinesCompletion))]
}

// setCompletionRole makes the completion of a role complete the gang.
func (r *reader) setCompletionRole(name string) {
	if r.gang.Roles[0].Name != name {
		r.gang.Homogeneous = false // in one workload, only rank 0 can determine completion
	}
	r.gang.FindRole(name).StatefulSet = false // a StatefulSet does not complete
	switch {
	case len(r.gang.Roles) == 1 || r.determinesCompletion(name) && !r.isSingleWorkload():
	case r.isSingleWorkload():
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyRank0)
	default:
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, name)
	}
}

// isSingleWorkload reports whether one workload has all roles.
func (r *reader) isSingleWorkload() bool {
	first, _ := r.gang.LocateRole(r.gang.Roles[0].Name)
	last, _ := r.gang.LocateRole(r.gang.Roles[len(r.gang.Roles)-1].Name)
	return first == last
}

// reportCompletionPolicy records the outcome of a policy that completes the job when a task completes.
func (r *reader) reportCompletionPolicy(f source.Field) {
	roles := r.listCompletingRoles()
	if len(roles) == 0 {
		f.MarkDropped("the task has no role in the gang", "")
		return
	}
	to := fmt.Sprintf("the completion of %s completes the gang", r.selectCompletionRole(roles))
	if policy := r.gang.RollcallAnnotations[gang.AnnotationSuccessPolicy]; policy != "" {
		to = "annotation " + gang.AnnotationSuccessPolicy + ": " + policy
	}
	if len(roles) == 1 {
		f.MarkPreserved(to)
		return
	}
	f.MarkChanged(to, "only one role completes a gang; Volcano completes the job with each of "+strings.Join(roles, ", "),
		"name another role with "+gang.AnnotationSuccessPolicy)
}

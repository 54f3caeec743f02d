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

// failureEvents are the events that restart or fail a gang, with their names in reports.
var failureEvents = map[string]string{
	eventPodFailed: "a failure", eventPodEvicted: "an eviction", eventAny: "a failure or an eviction",
}

// Actions with a meaning of their own.
const (
	actionRestartJob  = "RestartJob"
	actionCompleteJob = "CompleteJob"
)

// gangEffect is the effect of an event on a gang.
type gangEffect int

const (
	effectNone gangEffect = iota
	effectRestart
	effectFail
)

// actionEffects are the effects of the actions (volcano.sh/apis, pkg/apis/bus/v1alpha1/actions.go) after a
// failure. Completing a job after a failure fails the gang.
var actionEffects = map[string]gangEffect{
	actionRestartJob: effectRestart, "RestartTask": effectRestart, "RestartPod": effectRestart,
	"RestartPartition": effectRestart, "AbortJob": effectFail, "TerminateJob": effectFail, actionCompleteJob: effectFail,
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
		r.reportPolicy(p, "")
	}
	for _, t := range r.tasks {
		for _, p := range t.policies {
			r.reportPolicy(p, t.name)
		}
	}
}

// reportPolicy records the outcome of a policy. The task is empty for a policy of the job.
func (r *reader) reportPolicy(p lifecyclePolicy, task string) {
	for _, event := range p.events {
		cause, isFailure := failureEvents[event]
		switch {
		case isFailure:
			r.reportFailurePolicy(p, event, cause)
			p.field.Get("timeout").MarkDropped("Rollcall reacts without a delay", "")
		case event == eventTaskCompleted:
			r.reportCompletionPolicy(p, task)
		default:
			p.field.MarkDropped("a gang has no event "+event,
				"limit the start with "+gang.AnnotationStartTimeout+" and the restarts with "+gang.AnnotationMaxRestarts)
		}
		if event == eventAny {
			p.field.AddNote("other events have no effect on a gang", "")
		}
	}
	if len(p.events) == 0 {
		p.field.MarkDropped("a policy for an exit code has no counterpart",
			"set "+gang.AnnotationNonRetriableExitCodes+" to the exit codes that must fail the gang")
	}
}

// gangRestart is the place of a restart in the result.
const gangRestart = "annotation " + gang.AnnotationRestartPolicy + ": gang, the default"

// reportFailurePolicy records the outcome of a policy for an event of [failureEvents].
func (r *reader) reportFailurePolicy(p lifecyclePolicy, event, cause string) {
	to := "annotation " + gang.AnnotationRestartPolicy + ": never"
	switch effect := actionEffects[p.action]; {
	case p.action == actionRestartJob:
		p.field.MarkPreserved(gangRestart + ": after " + cause + " all ranks restart")
		return
	case effect == effectRestart:
		p.field.MarkChanged(gangRestart,
			fmt.Sprintf("after %s all ranks restart, because the others cannot continue without the %s",
				cause, strings.ToLower(strings.TrimPrefix(p.action, "Restart"))),
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the pod")
		return
	case effect == effectFail && r.gang.NeverRestarts():
	case effect == effectFail && event == eventPodFailed &&
		r.gang.RollcallAnnotations[gang.AnnotationNonRetriableExitCodes] != "":
		to = "annotation " + gang.AnnotationNonRetriableExitCodes + ": " + cause + " fails the gang"
	default:
		p.field.MarkDropped("a gang has one rule for all tasks, and "+cause+" restarts it",
			fmt.Sprintf("set %s to the exit codes that must fail the gang, and %s: 0 if an eviction must",
				gang.AnnotationNonRetriableExitCodes, gang.AnnotationMaxDisruptions))
		return
	}
	switch p.action {
	case "AbortJob":
		p.field.MarkChanged(to, "an aborted job can be resumed; a failed gang must be deleted and recreated", "")
	case actionCompleteJob:
		p.field.MarkChanged(to, "a failure fails the gang; Volcano marks the job complete", "")
	default:
		p.field.MarkPreserved(to)
	}
}

// convertRestarts determines which failures restart the gang. Volcano decides for each task, and a gang
// restarts as a unit: it never restarts if no task does, and all exit codes fail it if the policies of all
// tasks do. Without a policy, the kubelet restarts containers, and Volcano does not replace a failed pod.
func (r *reader) convertRestarts() {
	failures, anyRestart := make([]gangEffect, len(r.tasks)), false
	for i, t := range r.tasks {
		failures[i] = actionEffects[r.actionForEvent(t, eventPodFailed)]
		anyRestart = anyRestart || failures[i] == effectRestart ||
			failures[i] == effectNone && r.gang.Roles[i].Template.Spec.RestartPolicy != corev1.RestartPolicyNever ||
			actionEffects[r.actionForEvent(t, eventPodEvicted)] == effectRestart
	}
	if !anyRestart {
		r.gang.SetAnnotation(gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))
	} else if !slices.ContainsFunc(failures, func(e gangEffect) bool { return e != effectFail }) {
		r.gang.SetAnnotation(gang.AnnotationNonRetriableExitCodes, "1-255")
	}
	for i := range r.tasks {
		role := &r.gang.Roles[i]
		former := role.Template.Spec.RestartPolicy
		if !anyRestart || failures[i] == effectFail {
			role.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		r.reportRestartPolicy(role, failures[i] != effectNone, former)
	}
	r.convertMaxRetry()
}

// reportRestartPolicy records the outcome of the restart policy of the pods, whose former value is
// given. It is explicit that a policy applies to failures.
func (r *reader) reportRestartPolicy(role *ir.Role, explicit bool, former corev1.RestartPolicy) {
	const notReplaced = "without a policy Volcano does not replace a failed pod, and its peers block or fail; "
	f, now := role.Source.At("spec", "restartPolicy"), role.Template.Spec.RestartPolicy
	isStatefulSet := role.StatefulSet && r.gang.RoleJobReason(*role) == ""
	switch {
	case isStatefulSet && explicit && former == corev1.RestartPolicyAlways:
	case isStatefulSet && explicit:
		f.MarkChanged("Always", "it is the only value for a StatefulSet; the policies decide when a rank fails", "")
	case former != corev1.RestartPolicyNever && now == corev1.RestartPolicyNever:
		f.MarkChanged("Never", "the policies apply to failed pods, and a pod whose containers restart does not fail", "")
	case explicit && former == corev1.RestartPolicyAlways:
		f.MarkChanged("OnFailure", "a rank that succeeds is not restarted", "")
	case explicit:
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
	if !r.isSingleWorkload() && !r.framework.HasLauncher && r.hasCompletionRole() {
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

// hasCompletionRole reports whether the gang has a role for which determinesCompletion is true.
func (r *reader) hasCompletionRole() bool {
	return slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool { return r.determinesCompletion(role.Name) })
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
	var finishing []string
	for i, role := range r.gang.Roles {
		if role.Name == name {
			r.gang.Roles[i].StatefulSet = false // a StatefulSet does not complete
		}
		if frameworkRole, _ := r.framework.FindRole(role.Name); !frameworkRole.LongRunning {
			finishing = append(finishing, role.Name)
		}
	}
	isOnlyFinishingRole := slices.Equal(finishing, []string{name}) && !r.hasCompletionRole()
	switch {
	case len(r.gang.Roles) == 1 || r.determinesCompletion(name) && !r.isSingleWorkload():
	case r.isSingleWorkload():
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, gang.SuccessPolicyRank0)
	case !isOnlyFinishingRole:
		r.gang.SetAnnotation(gang.AnnotationSuccessPolicy, name)
	}
}

// isSingleWorkload reports whether one workload has all roles.
func (r *reader) isSingleWorkload() bool {
	first, _ := r.gang.LocateRole(r.gang.Roles[0].Name)
	last, _ := r.gang.LocateRole(r.gang.Roles[len(r.gang.Roles)-1].Name)
	return first == last
}

// reportCompletionPolicy records the outcome of a policy for the completion of a task, or of every
// task if the task is empty.
func (r *reader) reportCompletionPolicy(p lifecyclePolicy, task string) {
	completing := r.listCompletingRoles()
	if p.action != actionCompleteJob || len(completing) == 0 {
		p.field.MarkDropped("only one policy with the action CompleteJob can complete the gang", "")
		return
	}
	name := r.selectCompletionRole(completing)
	to := fmt.Sprintf("the completion of %s completes the gang", name)
	if policy := r.gang.RollcallAnnotations[gang.AnnotationSuccessPolicy]; policy != "" {
		to = fmt.Sprintf("annotation %s: %s", gang.AnnotationSuccessPolicy, policy)
	}
	if len(completing) == 1 || slices.ContainsFunc(r.gang.Roles, func(role ir.Role) bool {
		return role.Name == name && role.SourceNames.Role == task
	}) {
		p.field.MarkPreserved(to)
		return
	}
	p.field.MarkChanged(to, fmt.Sprintf("in Volcano each of %s completes the job, and only one role completes a gang",
		strings.Join(completing, ", ")), "name another role with "+gang.AnnotationSuccessPolicy)
}

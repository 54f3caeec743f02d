package volcano

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// lifecyclePolicy is a lifecycle policy of Volcano: an action for some events, or for an exit code.
type lifecyclePolicy struct {
	field  source.Field
	action string
	// events are empty for a policy with an exit code.
	events   []string
	exitCode *int32
	timeout  source.Field
}

// The events of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/events.go).
const (
	eventAny           = "*"
	eventPodFailed     = "PodFailed"
	eventPodEvicted    = "PodEvicted"
	eventPodPending    = "PodPending"
	eventUnknown       = "Unknown"
	eventTaskCompleted = "TaskCompleted"
	eventTaskFailed    = "TaskFailed"
)

// The actions of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/actions.go).
const (
	actionAbortJob         = "AbortJob"
	actionRestartJob       = "RestartJob"
	actionRestartTask      = "RestartTask"
	actionRestartPod       = "RestartPod"
	actionRestartPartition = "RestartPartition"
	actionTerminateJob     = "TerminateJob"
	actionCompleteJob      = "CompleteJob"
	actionResumeJob        = "ResumeJob"
)

// actionEffects are the effects of the actions on a gang. Completing a job after a failure fails the
// gang.
var actionEffects = map[string]gangEffect{
	actionRestartJob: effectRestart, actionRestartTask: effectRestart,
	actionRestartPod: effectRestart, actionRestartPartition: effectRestart,
	actionAbortJob: effectFail, actionTerminateJob: effectFail, actionCompleteJob: effectFail,
	actionResumeJob: effectNone,
}

// actionNames are the actions in the order of the API documentation, for a message.
var actionNames = []string{
	actionAbortJob, actionRestartJob, actionRestartTask, actionRestartPod, actionRestartPartition,
	actionTerminateJob, actionCompleteJob, actionResumeJob,
}

// gangEffect is the effect of an event on a gang.
type gangEffect int

const (
	effectNone gangEffect = iota
	effectRestart
	effectFail
)

// readPolicies returns the valid policies of a list. The caller records their outcomes.
func readPolicies(list source.Field) []lifecyclePolicy {
	var policies []lifecyclePolicy
	for _, f := range list.Items() {
		f.ReportUnreadExcept("action", "event", "events", "exitCode", "timeout")
		p := lifecyclePolicy{
			field: f, action: f.Get("action").String(), events: f.Get("events").Strings(),
			exitCode: f.Get("exitCode").Int32(), timeout: f.Get("timeout"),
		}
		if event := f.Get("event").String(); event != "" {
			p.events = append(p.events, event)
		}
		switch _, known := actionEffects[p.action]; {
		case p.action != "" && !known:
			f.Get("action").MarkInvalid("must be one of " + strings.Join(actionNames, ", "))
		case p.exitCode != nil && (*p.exitCode < 1 || *p.exitCode > maxExitCode):
			f.Get("exitCode").MarkInvalid(fmt.Sprintf("must be the code of a failure, from 1 to %d", maxExitCode))
		default:
			policies = append(policies, p)
		}
	}
	return policies
}

// matchesEvent reports whether the policy applies to the event.
func (p lifecyclePolicy) matchesEvent(event string) bool {
	return slices.Contains(p.events, event) || slices.Contains(p.events, eventAny)
}

// actionForEvent returns the action for an event in a task, or "". Policies of the task precede those
// of the job, and the first match applies (volcano, applyPolicies).
func (r *reader) actionForEvent(t task, event string) string {
	for _, p := range slices.Concat(t.policies, r.jobPolicies) {
		if p.matchesEvent(event) {
			return p.action
		}
	}
	return ""
}

// actionsForExitCodes returns the actions for exit codes in a task. A policy for all failures hides
// the policies after it.
func (r *reader) actionsForExitCodes(t task) map[int32]string {
	actions := map[int32]string{}
	for _, p := range slices.Concat(t.policies, r.jobPolicies) {
		if p.matchesEvent(eventPodFailed) {
			break
		}
		if p.exitCode == nil {
			continue
		}
		if _, hidden := actions[*p.exitCode]; !hidden {
			actions[*p.exitCode] = p.action
		}
	}
	return actions
}

// convertPolicies converts the policies of the job and its tasks.
func (r *reader) convertPolicies() {
	r.jobPolicies = readPolicies(r.spec.Get("policies"))
	r.convertRestarts()
	r.convertSuccess()
	for _, p := range r.jobPolicies {
		r.reportPolicy(p, nil)
	}
	for i := range r.tasks {
		for _, p := range r.tasks[i].policies {
			r.reportPolicy(p, &r.tasks[i])
		}
	}
}

// evictionText is the event [eventPodEvicted] in the texts of the report.
const evictionText = "an eviction"

// reportPolicy records the outcome of a policy. The task is nil for a policy of the job.
func (r *reader) reportPolicy(p lifecyclePolicy, t *task) {
	if p.action == "" || p.action == actionResumeJob {
		p.field.MarkDropped("no event resumes a gang", "")
		return
	}
	if p.exitCode != nil {
		r.reportFailurePolicy(p, fmt.Sprintf("exit code %d", *p.exitCode))
	}
	for _, event := range p.events {
		switch event {
		case eventPodFailed:
			r.reportFailurePolicy(p, "a failure")
		case eventTaskFailed:
			r.reportTaskFailedPolicy(p)
		case eventPodEvicted:
			r.reportFailurePolicy(p, evictionText)
		case eventAny:
			r.reportFailurePolicy(p, "a failure or "+evictionText)
			p.field.AddNote(r.describeOtherEvents(p), "")
		case eventTaskCompleted:
			r.reportCompletionPolicy(p, t)
		case eventPodPending:
			r.convertPendingPolicy(p)
		case eventUnknown:
			p.field.MarkDropped("Rollcall does not react to pods that cannot be scheduled while other pods of the gang run",
				"set "+gang.AnnotationStartTimeout+" to limit the time until all ranks are ready")
		default:
			p.field.MarkDropped("a gang has no event "+event, "")
		}
	}
	if p.timeout.Exists() && !p.matchesEvent(eventPodPending) {
		p.timeout.MarkDropped("Rollcall reacts without a delay", "")
	}
}

// describeOtherEvents returns the effect of a policy for every event, except for failures and evictions.
func (r *reader) describeOtherEvents(p lifecyclePolicy) string {
	if completing := r.listCompletingRoles(); p.action == actionCompleteJob && len(completing) > 0 {
		return fmt.Sprintf("the completion of %s completes the gang; other events have no effect on a gang",
			r.selectCompletionRole(completing))
	}
	return "other events, such as the completion of a task, have no effect on a gang"
}

// reportFailurePolicy records the outcome of a policy for a failure, which the cause describes.
func (r *reader) reportFailurePolicy(p lifecyclePolicy, cause string) {
	const gangRestart = "annotation " + gang.AnnotationRestartPolicy + ": gang, the default"
	switch p.action {
	case actionRestartJob:
		p.field.MarkPreserved(gangRestart + ": after " + cause + " all ranks restart")
	case actionRestartTask, actionRestartPod, actionRestartPartition:
		scope := strings.ToLower(strings.TrimPrefix(p.action, "Restart"))
		p.field.MarkChanged(gangRestart,
			fmt.Sprintf("after %s all ranks restart, because the others cannot continue without the %s", cause, scope),
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the pod")
	case actionTerminateJob:
		r.reportGangFailure(p, cause, "", "")
	case actionAbortJob:
		r.reportGangFailure(p, cause,
			"an aborted job can be resumed; a failed gang must be deleted and recreated", "")
	case actionCompleteJob:
		r.reportGangFailure(p, cause,
			"a failure fails the gang; Volcano marks the job complete", "let the program exit with code 0")
	}
}

// reportTaskFailedPolicy records the outcome of a policy for a task whose containers restarted too
// often.
func (r *reader) reportTaskFailedPolicy(p lifecyclePolicy) {
	if actionEffects[p.action] == effectFail && !r.gang.NeverRestarts() {
		p.field.MarkChanged("annotation "+gang.AnnotationMaxRestarts,
			"Rollcall counts the restarts of the gang instead of its containers, and the gang fails after the last one", "")
		return
	}
	r.reportFailurePolicy(p, "a failure")
}

// evictionsDiffer is why no eviction fails the gang.
const evictionsDiffer = "the tasks differ in the effect of an eviction; " +
	"a gang has one limit, and an eviction restarts it"

// reportGangFailure records the outcome of a policy that fails the gang after a failure. A gang that
// restarts fails only by exit codes.
func (r *reader) reportGangFailure(p lifecyclePolicy, cause, reason, action string) {
	to := "annotation " + gang.AnnotationNonRetriableExitCodes + ": " + cause + " fails the gang"
	_, evictionFails := r.gang.RollcallAnnotations[gang.AnnotationMaxDisruptions]
	switch {
	case r.gang.NeverRestarts():
		to = "annotation " + gang.AnnotationRestartPolicy + ": never"
	case cause == evictionText && evictionFails:
		to = "annotation " + gang.AnnotationMaxDisruptions + ": 0"
	case cause == evictionText:
		p.field.MarkDropped(evictionsDiffer, "set "+gang.AnnotationMaxDisruptions+": 0 if an eviction must fail the gang")
		return
	case r.gang.RollcallAnnotations[gang.AnnotationNonRetriableExitCodes] == "":
		p.field.MarkDropped("no exit code fails the gang in all tasks", "set "+gang.AnnotationNonRetriableExitCodes)
		return
	case strings.Contains(cause, evictionText) && !evictionFails:
		p.field.AddNoteWithOutcome(source.Dropped, "", evictionsDiffer, "")
	}
	if reason == "" {
		p.field.MarkPreserved(to)
		return
	}
	p.field.MarkChanged(to, reason, action)
}

// convertPendingPolicy converts the time limit for unscheduled pods.
func (r *reader) convertPendingPolicy(p lifecyclePolicy) {
	timeout, err := time.ParseDuration(p.timeout.String())
	if err != nil || timeout < time.Second {
		p.field.MarkDropped("without a timeout of at least 1s, no gang is ready in time", "set "+gang.AnnotationStartTimeout)
		return
	}
	current, _ := time.ParseDuration(r.gang.RollcallAnnotations[gang.AnnotationStartTimeout])
	if current == 0 || timeout < current {
		r.gang.SetAnnotation(gang.AnnotationStartTimeout, p.timeout.String())
	}
	reason := "it limits the time until all ranks are ready, instead of the time until each pod runs"
	switch {
	case actionEffects[p.action] == effectFail && r.gang.NeverRestarts():
		reason += "; a gang that is not ready in time fails"
	case actionEffects[p.action] == effectFail:
		reason += "; a gang that is not ready in time restarts, and fails after the last restart"
	}
	p.field.MarkChanged("annotation "+gang.AnnotationStartTimeout, reason, "")
}

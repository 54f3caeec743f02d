package volcano

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// lifecyclePolicy is a lifecycle policy of Volcano: an action for some events, or for an exit code.
type lifecyclePolicy struct {
	field  source.Field
	action string
	// events are empty for a policy with an exit code, which has no counterpart.
	events  []string
	timeout source.Field
}

// The events of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/events.go).
const (
	eventAny           = "*"
	eventPodFailed     = "PodFailed"
	eventPodEvicted    = "PodEvicted"
	eventPodPending    = "PodPending"
	eventTaskCompleted = "TaskCompleted"
	eventTaskFailed    = "TaskFailed"
)

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

// actions are the actions of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/actions.go) with their effects on
// a gang. Completing a job after a failure fails the gang.
var actions = []struct {
	name   string
	effect gangEffect
}{
	{"AbortJob", effectFail},
	{actionRestartJob, effectRestart},
	{"RestartTask", effectRestart},
	{"RestartPod", effectRestart},
	{"RestartPartition", effectRestart},
	{"TerminateJob", effectFail},
	{actionCompleteJob, effectFail},
	{"ResumeJob", effectNone},
}

// effectOf returns the effect of an action, and whether the action exists.
func effectOf(action string) (effect gangEffect, exists bool) {
	for _, a := range actions {
		if a.name == action {
			return a.effect, true
		}
	}
	return effectNone, false
}

// readPolicies returns the valid policies of a list. The caller records their outcomes.
func readPolicies(list source.Field) []lifecyclePolicy {
	var policies []lifecyclePolicy
	for _, f := range list.Items() {
		f.ReportUnreadExcept("action", "event", "events", "exitCode", "timeout")
		p := lifecyclePolicy{
			field: f, action: f.Get("action").String(), events: f.Get("events").Strings(),
			timeout: f.Get("timeout"),
		}
		if event := f.Get("event").String(); event != "" {
			p.events = append(p.events, event)
		}
		switch _, exists := effectOf(p.action); {
		case p.action != "" && !exists:
			f.Get("action").MarkInvalid("must be an action of Volcano, such as RestartJob")
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

// reportPolicy records the outcome of a policy. The task is nil for a policy of the job.
func (r *reader) reportPolicy(p lifecyclePolicy, t *task) {
	if effect, _ := effectOf(p.action); effect == effectNone {
		p.field.MarkDropped("no event resumes a gang", "")
		return
	}
	if p.field.Get("exitCode").Exists() {
		p.field.MarkDropped("a policy for an exit code has no counterpart",
			"set "+gang.AnnotationNonRetriableExitCodes+" to the exit codes that must fail the gang")
		return
	}
	for _, event := range p.events {
		switch event {
		case eventPodFailed, eventTaskFailed:
			r.reportFailurePolicy(p, "a failure")
		case eventPodEvicted:
			r.reportFailurePolicy(p, evictionText)
		case eventAny:
			r.reportFailurePolicy(p, "a failure or "+evictionText)
			others := "other events have no effect on a gang"
			if completing := r.listCompletingRoles(); p.action == actionCompleteJob && len(completing) > 0 {
				others = "the completion of " + r.selectCompletionRole(completing) + " completes the gang; " + others
			}
			p.field.AddNote(others, "")
		case eventTaskCompleted:
			r.reportCompletionPolicy(p, t)
		default:
			p.field.MarkDropped("a gang has no event "+event,
				"set "+gang.AnnotationStartTimeout+" to limit the time until all ranks are ready")
		}
	}
	if !p.matchesEvent(eventPodPending) {
		p.timeout.MarkDropped("Rollcall reacts without a delay", "")
	}
}

// failureDifferences are the differences between the actions of Volcano that end a job and a failed gang.
var failureDifferences = map[string]string{
	"AbortJob":        "an aborted job can be resumed; a failed gang must be deleted and recreated",
	actionCompleteJob: "a failure fails the gang; Volcano marks the job complete",
}

// reportFailurePolicy records the outcome of a policy for a failure, which the cause describes. A gang that
// restarts fails only by exit codes and evictions.
func (r *reader) reportFailurePolicy(p lifecyclePolicy, cause string) {
	const gangRestart = "annotation " + gang.AnnotationRestartPolicy + ": gang, the default"
	effect, _ := effectOf(p.action)
	_, evictionFails := r.gang.RollcallAnnotations[gang.AnnotationMaxDisruptions]
	isEviction := strings.Contains(cause, evictionText)
	to := "annotation " + gang.AnnotationNonRetriableExitCodes + ": " + cause + " fails the gang"
	switch {
	case p.action == actionRestartJob:
		p.field.MarkPreserved(gangRestart + ": after " + cause + " all ranks restart")
		return
	case effect == effectRestart:
		p.field.MarkChanged(gangRestart,
			fmt.Sprintf("after %s all ranks restart, because the others cannot continue without the %s",
				cause, strings.ToLower(strings.TrimPrefix(p.action, "Restart"))),
			"set "+gang.AnnotationRestartPolicy+": pod to restart only the pod")
		return
	case r.gang.NeverRestarts():
		to = "annotation " + gang.AnnotationRestartPolicy + ": never"
	case isEviction && evictionFails && cause == evictionText:
		to = "annotation " + gang.AnnotationMaxDisruptions + ": 0"
	case isEviction && !evictionFails:
		p.field.AddNoteWithOutcome(source.Dropped, "",
			"the tasks differ in the effect of an eviction; a gang has one limit, and an eviction restarts it",
			"set "+gang.AnnotationMaxDisruptions+": 0 if an eviction must fail the gang")
		if cause == evictionText {
			p.field.MarkHandled()
			return
		}
	case p.matchesEvent(eventTaskFailed):
		to = "annotation " + gang.AnnotationMaxRestarts + ": the gang fails after the last restart"
	case r.gang.RollcallAnnotations[gang.AnnotationNonRetriableExitCodes] == "":
		p.field.MarkDropped("no exit code fails the gang in all tasks", "set "+gang.AnnotationNonRetriableExitCodes)
		return
	}
	if difference := failureDifferences[p.action]; difference != "" {
		p.field.MarkChanged(to, difference, "")
		return
	}
	p.field.MarkPreserved(to)
}

// evictionText is the event [eventPodEvicted] in the texts of the report.
const evictionText = "an eviction"

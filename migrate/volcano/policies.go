package volcano

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// policy is one of Volcano's lifecycle policies: what is done when something happens.
type policy struct {
	node   ledger.Node
	action string
	// events are what may happen; empty where exitCode says it.
	events   []string
	exitCode *int32
	timeout  ledger.Node
}

// Events of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/events.go).
const (
	anyEvent      = "*"
	podFailed     = "PodFailed"
	podEvicted    = "PodEvicted"
	podPending    = "PodPending"
	unknownEvent  = "Unknown"
	taskCompleted = "TaskCompleted"
	taskFailed    = "TaskFailed"
)

// Actions of a policy (volcano.sh/apis, pkg/apis/bus/v1alpha1/actions.go).
const (
	abortJob         = "AbortJob"
	restartJob       = "RestartJob"
	restartTask      = "RestartTask"
	restartPod       = "RestartPod"
	restartPartition = "RestartPartition"
	terminateJob     = "TerminateJob"
	completeJob      = "CompleteJob"
	resumeJob        = "ResumeJob"
)

// anEviction is the event [podEvicted] for people.
const anEviction = "an eviction"

// What an action does to a gang.
type effect int

const (
	nothing effect = iota
	restarts
	ends
)

// effectOf is what an action does. Completing a job because something failed is an end
// as well.
func effectOf(action string) effect {
	switch action {
	case restartJob, restartTask, restartPod, restartPartition:
		return restarts
	case abortJob, terminateJob, completeJob:
		return ends
	default:
		return nothing
	}
}

// readPolicies reads a list of policies, without a word yet of what becomes of them.
func readPolicies(list ledger.Node) []policy {
	var out []policy
	actions := []string{abortJob, restartJob, restartTask, restartPod, restartPartition, terminateJob, completeJob, resumeJob}
	for _, n := range list.Items() {
		n.Only("action", "event", "events", "exitCode", "timeout")
		p := policy{node: n, action: n.Get("action").String(), events: n.Get("events").Strings(), exitCode: n.Get("exitCode").Int32(), timeout: n.Get("timeout")}
		if e := n.Get("event").String(); e != "" {
			p.events = append(p.events, e)
		}
		if p.action != "" && !slices.Contains(actions, p.action) {
			n.Get("action").Invalid("must be one of " + strings.Join(actions, ", "))
			continue
		}
		if p.exitCode != nil && (*p.exitCode < 1 || *p.exitCode > 255) {
			n.Get("exitCode").Invalid("must be a code of a failure, from 1 to 255")
			continue
		}
		out = append(out, p)
	}
	return out
}

// of reports whether the policy is about the event.
func (p policy) of(event string) bool {
	return slices.Contains(p.events, event) || slices.Contains(p.events, anyEvent)
}

// reaction is the action for an event in a task: the first policy of the task that is
// about it, else the first of the job (volcano, applyPolicies); empty when there is none.
func (r *reader) reaction(t task, event string) string {
	for _, p := range slices.Concat(t.policies, r.jobPolicies) {
		if p.of(event) {
			return p.action
		}
	}
	return ""
}

// reactions are the actions for exit codes in a task. A policy about failures as such
// that comes before hides them.
func (r *reader) reactions(t task) map[int32]string {
	out := map[int32]string{}
	for _, p := range slices.Concat(t.policies, r.jobPolicies) {
		if p.of(podFailed) {
			break
		}
		if p.exitCode == nil {
			continue
		}
		if _, hidden := out[*p.exitCode]; !hidden {
			out[*p.exitCode] = p.action
		}
	}
	return out
}

// policies carries all policies of the job and its tasks.
func (r *reader) policies() {
	r.jobPolicies = readPolicies(r.spec.Get("policies"))
	r.restarts()
	r.success()
	for _, p := range r.jobPolicies {
		r.account(p, nil)
	}
	for i := range r.tasks {
		for _, p := range r.tasks[i].policies {
			r.account(p, &r.tasks[i])
		}
	}
}

// account enters what became of a policy. The task is nil for one of the job.
func (r *reader) account(p policy, t *task) {
	if p.action == "" || p.action == resumeJob {
		p.node.Lost("nothing in a gang is resumed by an event", "")
		return
	}
	if p.exitCode != nil {
		r.accountFailure(p, fmt.Sprintf("exit code %d", *p.exitCode))
	}
	for _, e := range p.events {
		switch e {
		case podFailed:
			r.accountFailure(p, "a failure")
		case taskFailed:
			r.accountTask(p)
		case podEvicted:
			r.accountFailure(p, anEviction)
		case anyEvent:
			r.accountFailure(p, "a failure or "+anEviction)
			p.node.Note("other events, such as the end of a task, do nothing of the kind", "")
		case taskCompleted:
			r.accountSuccess(p, t)
		case podPending:
			r.accountPending(p)
		case unknownEvent:
			p.node.Lost("nobody acts on pods that find no place beside others that run", "set "+gang.AnnotationStartTimeout+" to bound the time until all ranks are ready")
		default:
			p.node.Lost(fmt.Sprintf("a gang knows no event %s", e), "")
		}
	}
	if p.timeout.Exists() && !p.of(podPending) {
		p.timeout.Lost("Rollcall acts at once", "")
	}
}

// accountFailure enters what becomes of a policy about something that went wrong.
func (r *reader) accountFailure(p policy, what string) {
	to := "annotation " + gang.AnnotationRestartPolicy
	switch p.action {
	case restartJob:
		p.node.Carried(to + ": gang, its default: after " + what + " all ranks begin anew")
	case restartTask, restartPod, restartPartition:
		p.node.Changed(to+": gang, its default", fmt.Sprintf("after %s all ranks restart, not %s alone: the others could not go on without it", what, partOf(p.action)),
			"set "+gang.AnnotationRestartPolicy+": pod to restart the one pod")
	case terminateJob:
		p.node.Carried(r.ending(to, what))
	case abortJob:
		p.node.Changed(r.ending(to, what), "an aborted job could be resumed; a gang that has failed is deleted and created anew", "")
	case completeJob:
		p.node.Changed(r.ending(to, what), "a gang that ends by a failure has failed; Volcano would call it complete", "let the program end with exit code 0")
	}
}

// accountTask enters what becomes of a policy about a task whose containers were
// restarted too often.
func (r *reader) accountTask(p policy) {
	if effectOf(p.action) == ends && !r.never() {
		p.node.Changed("annotation "+gang.AnnotationMaxRestarts, "not the restarts of containers are counted but those of the gang; after the last one it has failed", "")
		return
	}
	r.accountFailure(p, "a failure")
}

// ending is where it is said that something ends the gang.
func (r *reader) ending(to, what string) string {
	var by []string
	switch {
	case r.never():
		return to + ": never"
	case what != anEviction && r.blueprint.Keys[gang.AnnotationFinalCodes] != "":
		by = append(by, "annotation "+gang.AnnotationFinalCodes)
	case what != anEviction:
		by = append(by, "spec.podFailurePolicy")
	}
	if strings.Contains(what, anEviction) && !slices.Contains(by, "spec.podFailurePolicy") {
		by = append(by, "spec.podFailurePolicy")
	}
	return strings.Join(by, " and ") + ": " + what + " ends the gang"
}

func partOf(action string) string {
	switch action {
	case restartTask:
		return "the task"
	case restartPartition:
		return "the partition"
	default:
		return "the pod"
	}
}

// accountPending carries how long pods may wait for their place.
func (r *reader) accountPending(p policy) {
	d, err := time.ParseDuration(p.timeout.String())
	if err != nil || d < time.Second {
		p.node.Lost("without a time of at least 1s, each gang would be late", "set "+gang.AnnotationStartTimeout)
		return
	}
	have, _ := time.ParseDuration(r.blueprint.Keys[gang.AnnotationStartTimeout])
	if have == 0 || d < have {
		r.set(gang.AnnotationStartTimeout, p.timeout.String())
	}
	reason := "it bounds the time until all ranks are ready, not until each pod runs"
	if effectOf(p.action) == ends {
		reason += "; a gang that is late restarts, and fails after that"
		if r.never() {
			reason = "it bounds the time until all ranks are ready, not until each pod runs; a gang that is late has failed"
		}
	}
	p.node.Changed("annotation "+gang.AnnotationStartTimeout, reason, "")
}

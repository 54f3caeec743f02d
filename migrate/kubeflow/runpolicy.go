package kubeflow

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
	"rollcall.training/migrate/podgroup"
)

// maxRestarts is the largest value of the annotation.
const maxRestarts = 1000

// keeping reads how the job is held back and kept, which only Jobs can be.
func (r *reader) keeping() {
	r.policies("suspend", r.suspend)
	r.policies("ttlSecondsAfterFinished", r.ttl)
	r.policies("managedBy", r.managedBy)
}

// ending reads what ends the job, and what becomes of it then.
func (r *reader) ending() {
	r.policies("cleanPodPolicy", r.cleanPods)
	r.policies("backoffLimit", r.backoffLimit)
	r.policies("activeDeadlineSeconds", r.deadline)
	r.policies("schedulingPolicy", r.scheduling)
}

// policies reads a field of the run policy. The operators for one framework had them in
// the spec itself, and MPIJob has some in both places.
func (r *reader) policies(name string, read func(ledger.Node)) {
	policy, flat := r.spec.At("runPolicy", name), r.spec.Get(name)
	if !policy.Exists() {
		read(flat)
		return
	}
	read(policy)
	flat.Changed("", "left out: runPolicy has it too, and counts", "")
}

// cleanPods carries which pods of an ended job are deleted.
func (r *reader) cleanPods(n ledger.Node) {
	switch v := n.String(); v {
	case "":
		// The operators for one framework differ in their defaults (tf-operator had Running).
		if r.Version == "v1" || r.Version == v2beta1 {
			r.at.Note("cleanPodPolicy is not set: the operator left the pods of an ended job alone, and Rollcall takes those away that still run",
				"set "+gang.AnnotationCleanPods+": none for the former way")
		}
	case "None", "Running", "All":
		r.blueprint.Keys[gang.AnnotationCleanPods] = strings.ToLower(v)
		n.Carried("annotation " + gang.AnnotationCleanPods)
	default:
		n.Invalid("must be None, Running or All")
	}
}

// backoffLimit carries how often a job may fail.
func (r *reader) backoffLimit(n ledger.Node) {
	limit := n.Int32()
	switch {
	case limit == nil:
		r.withoutLimit()
	case *limit < 0:
		n.Invalid("must not be negative")
	case r.blueprint.Keys[gang.AnnotationRestartPolicy] == string(gang.RestartNever):
		n.Changed("", "left out: no part of the job restarts", "")
	case r.scaled && len(r.blueprint.Roles) == 1:
		n.Lost("the workload is a StatefulSet for its autoscaler, and starts its pods anew without an end", "")
	case r.scaled:
		r.blueprint.Job.BackoffLimit = limit
		n.Changed("spec.backoffLimit of the master's Job", "the workers are a StatefulSet for their autoscaler, and start anew without an end", "")
	case r.elastic:
		r.blueprint.Job.BackoffLimit = limit
		n.Changed("spec.backoffLimit of each Job", "the operator adds up the restarts of all containers that run; a Job counts those of its pods that failed", "")
	default:
		r.blueprint.Keys[gang.AnnotationMaxRestarts] = strconv.Itoa(int(min(*limit, maxRestarts)))
		reason := "the operator adds up the restarts of all containers that run; Rollcall counts the restarts of the gang, one for each incident"
		if r.relaunches {
			reason = "it was the number of times that the launcher is started anew; now it is that of all ranks together"
		}
		if *limit > maxRestarts {
			reason += fmt.Sprintf("; %d is the most", maxRestarts)
		}
		n.Changed("annotation "+gang.AnnotationMaxRestarts, reason, "")
	}
}

// withoutLimit is for jobs that say nothing of it: the operators replaced pods without an
// end, and the launchers that were Jobs were started anew as often as a Job does by default.
func (r *reader) withoutLimit() {
	const byDefault = 6 // of a Job (kubernetes pkg/apis/batch/v1/defaults.go)
	switch restarts := r.blueprint.Keys[gang.AnnotationRestartPolicy] == ""; {
	case r.relaunches:
		r.blueprint.Keys[gang.AnnotationMaxRestarts] = strconv.Itoa(byDefault)
	case restarts && r.elastic && !r.scaled:
		r.blueprint.Job.BackoffLimit = ptr.To[int32](math.MaxInt32)
	case restarts && !r.elastic:
		r.at.Note(fmt.Sprintf("backoffLimit is not set: the operator restarted pods without an end, and the gang restarts at most %d times", gang.DefaultMaxRestarts),
			"set "+gang.AnnotationMaxRestarts+" for another number")
	}
}

// deadline carries how long the job may run. For the operators its time began once, and
// that of a Job begins with each restart of the gang, for which it is suspended.
func (r *reader) deadline(n ledger.Node) {
	seconds := n.Int64()
	const to = "spec.activeDeadlineSeconds of each Job"
	switch {
	case seconds == nil:
		return
	case *seconds < 1:
		n.Invalid("must be at least 1")
		return
	case r.scaled && len(r.blueprint.Roles) == 1:
		n.Lost("the workload is a StatefulSet for its autoscaler, and has no deadline", "")
		return
	case r.blueprint.Keys[gang.AnnotationRestartPolicy] == string(gang.RestartNever) || r.elastic:
		n.Carried(to)
	default:
		n.Changed(to, "a Job's time begins anew when the gang restarts", "")
	}
	r.blueprint.Job.ActiveDeadlineSeconds = seconds
}

func (r *reader) ttl(n ledger.Node) {
	seconds := n.Int32()
	if seconds == nil {
		return
	}
	if *seconds < 0 {
		n.Invalid("must not be negative")
		return
	}
	r.blueprint.Job.TTLSecondsAfterFinished, r.blueprint.TimeToLive = seconds, n
	n.Carried("spec.ttlSecondsAfterFinished of each Job")
}

func (r *reader) suspend(n ledger.Node) {
	held := n.Bool()
	if ptr.Deref(held, false) {
		r.blueprint.Job.Suspend = held
	}
	n.Carried("spec.suspend of each Job")
}

// managedBy carries who runs the job.
func (r *reader) managedBy(n ledger.Node) {
	switch v := n.String(); {
	case v == "":
	case strings.HasPrefix(v, Group+"/"):
		n.Changed("", "left out: it names the operator", "")
	default:
		r.blueprint.Job.ManagedBy = ptr.To(v)
		n.Carried("spec.managedBy of each Job")
	}
}

// scheduling carries what is asked of a gang scheduler. Which one that is, the operator
// was told by a flag; with that flag it asks for all jobs, be it in their spec or not.
func (r *reader) scheduling(n ledger.Node) {
	w := podgroup.Wish{MinMember: n.Get("minAvailable").Int32(), Queue: n.Get("queue").String(),
		PriorityClass: n.Get("priorityClass").String(), TimeoutSeconds: n.Get("scheduleTimeoutSeconds").Int32()}
	n.Get("minResources").Into(&w.MinResources)
	if n.Mistaken() {
		return
	}
	if !w.Apply(r.blueprint, r.Around.Scheduler) {
		if len(n.Keys()) > 0 {
			n.Lost("no gang scheduler is named that would heed it", "name yours with --gang-scheduler")
		}
		return
	}
	group := "PodGroup " + r.blueprint.Name
	for _, key := range []string{"minAvailable", "minResources"} {
		n.Get(key).Carried(group)
	}
	if r.Around.Scheduler == origin.Coscheduling {
		n.Get("queue").Lost("coscheduling has no queues", "")
		n.Get("priorityClass").Carried("spec.priorityClassName of the pods")
		n.Get("scheduleTimeoutSeconds").Carried(group)
		return
	}
	n.Get("priorityClass").Carried(group)
	n.Get("queue").Carried(group)
	n.Get("scheduleTimeoutSeconds").Lost("Volcano does not know it", "set "+gang.AnnotationStartTimeout+" to restart a gang that is not whole in time")
}

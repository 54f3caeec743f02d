package kubeflow

import (
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
	"rollcall.training/migrate/podgroup"
)

// runPolicy reads how the whole gang ends. The operators for one framework had these
// fields in the spec itself, and MPIJob has some in both places.
func (r *reader) runPolicy() {
	for _, n := range []ledger.Node{r.spec, r.spec.Get("runPolicy")} {
		r.cleanPods(n.Get("cleanPodPolicy"))
		r.limits(n)
		r.waiting(n)
		r.scheduling(n.Get("schedulingPolicy"))
	}
}

// cleanPods carries which pods of an ended job are deleted.
func (r *reader) cleanPods(n ledger.Node) {
	switch v := n.String(); v {
	case "":
	case "None", "Running", "All":
		r.blueprint.Keys[gang.AnnotationCleanPods] = strings.ToLower(v)
		n.Carried("annotation " + gang.AnnotationCleanPods)
	default:
		n.Invalid("must be None, Running or All")
	}
}

// limits carries how often and for how long a job may run.
func (r *reader) limits(n ledger.Node) {
	if limit := n.Get("backoffLimit"); limit.Exists() {
		if v := limit.Int32(); v != nil {
			r.blueprint.Keys[gang.AnnotationMaxRestarts] = strconv.Itoa(int(min(max(*v, 0), maxRestarts)))
			limit.Changed("annotation "+gang.AnnotationMaxRestarts,
				"the operator adds up the restarts of all containers that run; Rollcall counts the restarts of the gang, one for each incident", "")
		}
	}
	if deadline := n.Get("activeDeadlineSeconds"); deadline.Exists() {
		r.blueprint.Job.ActiveDeadlineSeconds = deadline.Int64()
		deadline.Carried("spec.activeDeadlineSeconds of each Job")
	}
	if ttl := n.Get("ttlSecondsAfterFinished"); ttl.Exists() {
		r.blueprint.Job.TTLSecondsAfterFinished = ttl.Int32()
		ttl.Carried("spec.ttlSecondsAfterFinished of each Job")
	}
}

// maxRestarts is the largest value of the annotation.
const maxRestarts = 1000

// waiting carries who lets the job begin.
func (r *reader) waiting(n ledger.Node) {
	if suspend := n.Get("suspend"); suspend.Exists() {
		if ptr.Deref(suspend.Bool(), false) {
			r.blueprint.Job.Suspend = ptr.To(true)
		}
		suspend.Carried("spec.suspend of each Job")
	}
	managed := n.Get("managedBy")
	switch v := managed.String(); {
	case v == "":
	case strings.HasPrefix(v, "kubeflow.org/"):
		managed.Ignore() // the operator's own name, its default
	default:
		r.blueprint.Job.ManagedBy = ptr.To(v)
		managed.Carried("spec.managedBy of each Job")
	}
}

// scheduling carries what is asked of a gang scheduler. Which one that is, the operator
// was told by a flag.
func (r *reader) scheduling(n ledger.Node) {
	if !n.Exists() {
		return
	}
	w := podgroup.Wish{MinMember: n.Get("minAvailable").Int32(), Queue: n.Get("queue").String(),
		PriorityClass: n.Get("priorityClass").String(), TimeoutSeconds: n.Get("scheduleTimeoutSeconds").Int32()}
	n.Get("minResources").Into(&w.MinResources)
	if !w.Apply(r.blueprint, r.Around.Scheduler) {
		n.Lost("no gang scheduler is named that would heed it", "name yours with --gang-scheduler")
		return
	}
	for _, key := range []string{"minAvailable", "minResources"} {
		n.Get(key).Carried("PodGroup " + r.blueprint.Name)
	}
	if n.Get("priorityClass").Carried("PodGroup " + r.blueprint.Name); r.Around.Scheduler == origin.Coscheduling {
		n.Get("queue").Lost("coscheduling has no queues", "")
		n.Get("scheduleTimeoutSeconds").Carried("PodGroup " + r.blueprint.Name)
		return
	}
	n.Get("queue").Carried("PodGroup " + r.blueprint.Name)
	n.Get("scheduleTimeoutSeconds").Lost("Volcano does not know it", "set "+gang.AnnotationStartTimeout+" to restart a gang that is not whole in time")
}

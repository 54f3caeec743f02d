package trainer

import (
	"k8s.io/utils/ptr"

	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
	"rollcall.training/migrate/podgroup"
)

// queueAnnotation names Volcano's queue (volcano.sh/apis, QueueNameAnnotationKey).
const queueAnnotation = "scheduling.volcano.sh/queue-name"

// coschedulingTimeout is the trainer's default, in seconds.
const coschedulingTimeout = 60

// podGroup carries what is asked of a gang scheduler. The runtime itself says which one.
func (r *reader) podGroup() {
	n := r.runtime.At("spec", "podGroupPolicy")
	co, volcano := n.Get("coscheduling"), n.Get("volcano")
	if !co.Exists() && !volcano.Exists() {
		return
	}
	if co.Exists() && volcano.Exists() {
		n.Invalid("has two schedulers; only one of them can be")
		return
	}
	if len(r.Roles) == 0 {
		n.Lost("there is no gang to be placed at once: the pods are those of a plain Job", "name a framework with --framework")
		return
	}
	to := "PodGroup " + r.Blueprint.Name
	wish := podgroup.Wish{}
	for i := range r.Roles {
		if c := r.Roles[i].Template.Spec.PriorityClassName; c != "" {
			wish.PriorityClass = c
		}
	}
	if co.Exists() {
		timeout := co.Get("scheduleTimeoutSeconds")
		wish.TimeoutSeconds = ptr.To(ptr.Deref(timeout.Int32(), coschedulingTimeout))
		wish.Apply(r.Blueprint, origin.Coscheduling)
		co.Only("scheduleTimeoutSeconds")
		co.Carried(to)
	} else {
		wish.Queue = r.Annotations[queueAnnotation]
		if tree, ok := volcano.Get("networkTopology").Tree().(map[string]any); ok {
			wish.NetworkTopology = tree
		}
		wish.Apply(r.Blueprint, origin.Volcano)
		volcano.Only("networkTopology")
		volcano.Carried(to)
	}
	if len(r.set.Jobs) > len(r.Roles) {
		n.Remark(ledger.Changed, to, "the trainer counted the pods of initializers and of what stands beside the gang among those that find a place together; now the ranks alone do", "")
	}
}

package trainer

import (
	"k8s.io/utils/ptr"

	"rollcall.training/internal/migrate/podgroup"
	"rollcall.training/internal/migrate/source"
)

// volcanoQueueAnnotation names the queue of Volcano (volcano.sh/apis, QueueNameAnnotationKey).
const volcanoQueueAnnotation = "scheduling.volcano.sh/queue-name"

// defaultCoschedulingTimeoutSeconds is the default of Trainer.
const defaultCoschedulingTimeoutSeconds = 60

// convertPodGroupPolicy converts the settings of the gang scheduler, which the runtime names.
func (r *reader) convertPodGroupPolicy() {
	policy := r.runtime.At("spec", "podGroupPolicy")
	coscheduling, volcano := policy.Get("coscheduling"), policy.Get("volcano")
	switch {
	case !coscheduling.Exists() && !volcano.Exists():
		return
	case coscheduling.Exists() && volcano.Exists():
		policy.MarkInvalid("must have only one of coscheduling and volcano")
		return
	case len(r.Roles) == 0:
		policy.MarkDropped("the pods belong to a plain Job, not to a gang", "name a framework with --framework")
		return
	}
	to := "PodGroup " + r.Gang.Name
	spec := podgroup.Spec{}
	for i := range r.Roles {
		if c := r.Roles[i].Template.Spec.PriorityClassName; c != "" {
			spec.PriorityClassName = c
		}
	}
	if coscheduling.Exists() {
		timeout := coscheduling.Get("scheduleTimeoutSeconds").Int32()
		spec.ScheduleTimeoutSeconds = ptr.To(ptr.Deref(timeout, defaultCoschedulingTimeoutSeconds))
		spec.Apply(r.Gang, source.SchedulerCoscheduling)
		coscheduling.ReportUnreadExcept("scheduleTimeoutSeconds")
		coscheduling.MarkPreserved(to)
	} else {
		spec.Queue = r.Annotations[volcanoQueueAnnotation]
		if topology, ok := volcano.Get("networkTopology").CopyValue().(map[string]any); ok {
			spec.NetworkTopology = topology
		}
		spec.Apply(r.Gang, source.SchedulerVolcano)
		volcano.ReportUnreadExcept("networkTopology")
		volcano.MarkPreserved(to)
	}
	if len(r.jobSet.Jobs) > len(r.Roles) {
		policy.AddNoteWithOutcome(source.Changed, to,
			"the PodGroup included initializers and other jobs outside the gang; now it includes only the ranks", "")
	}
}

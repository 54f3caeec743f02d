package gang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Scheduler is a scheduler that places all ranks of a gang or none.
type Scheduler string

// The schedulers.
const (
	// SchedulerNone places each pod separately. It is the default.
	SchedulerNone Scheduler = "none"
	// SchedulerNative is kube-scheduler with a PodGroup of scheduling.k8s.io (KEP-4671).
	SchedulerNative Scheduler = "native"
	// SchedulerCoscheduling is a scheduler with the plugin Coscheduling of scheduler-plugins.
	SchedulerCoscheduling Scheduler = "coscheduling"
	// SchedulerVolcano is the scheduler of Volcano.
	SchedulerVolcano Scheduler = "volcano"
	// SchedulerKAI is the scheduler of KAI.
	SchedulerKAI Scheduler = "kai"
	// SchedulerYuniKorn is the scheduler of Apache YuniKorn.
	SchedulerYuniKorn Scheduler = "yunikorn"
)

// Schedulers returns the values of [AnnotationScheduler], the default first. The caller owns the slice.
func Schedulers() []Scheduler {
	return []Scheduler{
		SchedulerNone, SchedulerNative, SchedulerCoscheduling, SchedulerVolcano, SchedulerKAI, SchedulerYuniKorn,
	}
}

// SchedulerNames are values of spec.schedulerName of pods. Empty means that the cluster does not define
// the name.
type SchedulerNames struct {
	Coscheduling, Volcano, KAI string
}

// Placement determines how the pods of a gang get their nodes.
type Placement struct {
	// Scheduler is the scheduler of the gang.
	Scheduler Scheduler
	// PodGroup is the name of the PodGroup of the gang, or of its applications with [SchedulerYuniKorn]; empty with
	// [SchedulerNone]. It differs from [Gang.OwnPodGroup] if the user has set another name in the pod template.
	PodGroup string
	// SchedulerName is spec.schedulerName of the pods; empty if the scheduler does not require a name.
	SchedulerName string
	// Queue is the queue of the scheduler; empty unless the scheduler is [SchedulerKAI].
	Queue string
	// PriorityClass is the PriorityClass of the pods; empty without a class.
	PriorityClass string
	// Topology is where all ranks run.
	Topology Topology
	// Segment is where consecutive ranks run.
	Segment Segment
	// IsQueued is true if the gang is one Job that waits in a queue of Kueue, which can choose its nodes.
	IsQueued bool
}

// OwnPodGroup returns the name of the PodGroup that Rollcall creates, or of the applications of YuniKorn. The runs of a
// CronJob have the same gang name, so the PodGroup of a gang of one workload has the name of the workload. KAI and
// YuniKorn do not distinguish two namespaces, so the name contains the namespace or its hash (KAI-Scheduler
// pkg/scheduler/cache/cluster_info, snapshotPodGroups).
func (g Gang) OwnPodGroup() string {
	name := g.Name
	if len(g.Members) == 1 {
		name = g.WorkloadName
	}
	switch g.Placement.Scheduler {
	case SchedulerKAI:
		return g.Namespace + "." + name
	case SchedulerYuniKorn:
		return newApplicationName(g.Namespace, name)
	}
	return name
}

// parsePlacement parses the scheduler. Pods that another controller creates are placed as it determines, and the
// default of the cluster does not replace a scheduler in the pod template.
func (p *parser) parsePlacement(g Gang, cfg Config) Placement {
	var values []string
	for _, s := range Schedulers() {
		values = append(values, string(s))
	}
	spec := &p.workload.Template().Spec
	out := Placement{
		Scheduler: Scheduler(p.parseEnum(AnnotationScheduler, values...)), PriorityClass: spec.PriorityClassName,
	}
	_, isSet := p.meta.Annotations[AnnotationScheduler]
	if !isSet {
		out.Scheduler = cmp.Or(cfg.Scheduler, SchedulerNone)
	}
	switch out.Scheduler {
	case SchedulerCoscheduling:
		out.SchedulerName = cfg.SchedulerNames.Coscheduling
	case SchedulerVolcano:
		out.SchedulerName = cmp.Or(cfg.SchedulerNames.Volcano, string(SchedulerVolcano))
	case SchedulerKAI:
		out.SchedulerName = cmp.Or(cfg.SchedulerNames.KAI, defaultKAIName)
		out.Queue = cmp.Or(p.meta.Labels[LabelKAIQueue], p.workload.Template().Labels[LabelKAIQueue], defaultKAIQueue)
	case SchedulerYuniKorn:
		out.SchedulerName = yuniKornName
	}
	usual := []string{"", corev1.DefaultSchedulerName, out.SchedulerName}
	if p.workload.IsManagedExternally() || !isSet && !slices.Contains(usual, spec.SchedulerName) {
		return Placement{Scheduler: SchedulerNone, PriorityClass: spec.PriorityClassName}
	}
	if out.Scheduler != SchedulerNone {
		g.Placement = out
		out.PodGroup = g.OwnPodGroup()
	}
	return out
}

// ExtendTimeout returns a timeout that is up to a quarter longer, by a hash of the gang. Gangs that hold the nodes of
// each other must not give them back at the same time.
func ExtendTimeout(timeout time.Duration, hash uint32) time.Duration {
	return timeout + timeout/4*time.Duration(hash%100)/100
}

// ParseScheduler returns the scheduler with a name, and an error that lists all names if there is none.
func ParseScheduler(name string) (Scheduler, error) {
	if !slices.Contains(Schedulers(), Scheduler(name)) {
		return "", fmt.Errorf("invalid value %q: must be one of %q", name, Schedulers())
	}
	return Scheduler(name), nil
}

// String returns the settings that must be equal in all members, for messages.
func (p Placement) String() string {
	if p.Scheduler == SchedulerNone {
		return string(SchedulerNone)
	}
	object := "PodGroup"
	if p.Scheduler == SchedulerYuniKorn {
		object = "application"
	}
	text := fmt.Sprintf("%s with the %s %s, %s and %s", p.Scheduler, object, p.PodGroup,
		cmp.Or(p.PriorityClass, "no PriorityClass"), cmp.Or(p.Topology.String(), "no topology"))
	if p.Topology.Object != "" {
		text += " of " + p.Topology.Object
	}
	if p.Queue != "" {
		text += " in the queue " + p.Queue
	}
	return text
}

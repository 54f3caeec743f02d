package injectors

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/injectors/hostfile"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/scheduling"
)

// WithFacts returns a copy of the engine that denies new workloads whose scheduler the cluster does not have, and gangs
// that wait in a queue as one if the cluster does not permit it. The functions return why the cluster cannot place
// gangs by a scheduler, and why Rollcall cannot create Workloads of Kueue, as a sentence without a period. The sentence
// is empty if there is no problem. The functions must be fast and safe for concurrent use. Without one of them, the
// engine warns that it does not know.
func (e *Engine) WithFacts(schedulers func(gang.Scheduler) string, queue func() string) *Engine {
	out := *e
	out.schedulerFacts, out.queueFacts = schedulers, queue
	return &out
}

// checkScheduler returns a denial for a scheduler that cannot place the gang in this cluster, or not where it must run.
func (e *Engine) checkScheduler(w gang.Workload, g gang.Gang) (gang.Warnings, gang.Denials) {
	if key, problem := scheduling.CheckTopology(w, g.Placement); problem != "" {
		path := fieldpath.Annotations.Key(key)
		return nil, gang.Denials{{
			Error: field.Invalid(path, w.Meta().Annotations[key], problem), Fix: gang.NewRemoveFix(path),
		}}
	}
	s := g.Placement.Scheduler
	if s == gang.SchedulerNone {
		return nil, nil
	}
	path := fieldpath.Annotations.Key(gang.AnnotationScheduler)
	deny := func(format string, args ...any) gang.Denials {
		return gang.Denials{{Error: field.Invalid(path, string(s), fmt.Sprintf(format, args...)),
			Fix: gang.NewAnnotationFix(w, gang.AnnotationScheduler, string(gang.SchedulerNone))}}
	}
	if problem := scheduling.Find(s).Check(w, g); problem != "" {
		return nil, deny("%s", problem)
	}
	if !scheduling.HasPodGroups(s) {
		return nil, nil
	}
	if e.schedulerFacts == nil {
		return gang.Warnings{gang.NewWarning(path,
			"only the cluster knows whether it serves the PodGroups of the scheduler")}, nil
	}
	if problem := e.schedulerFacts(s); problem != "" {
		return nil, deny("%s; otherwise set the annotation to %q", problem, gang.SchedulerNone)
	}
	return nil, nil
}

// recordPlacement sets the annotation of the scheduler in an injected workload if the scheduler is the default of the
// cluster, because the default can change while the gang runs.
func recordPlacement(w gang.Workload, g gang.Gang) {
	if g.Placement.Scheduler != gang.SchedulerNone {
		injection.SetKey(&w.Meta().Annotations, gang.AnnotationScheduler, string(g.Placement.Scheduler))
	}
}

// describePlacement replaces the placement, the queue and the order of hosts of the result by those in the pod template
// of an injected workload. The gang has no PodGroup of Rollcall if the user provides another.
func (r *Result) describePlacement(w gang.Workload) {
	r.Gang.RankOrder = nil
	if order := w.Template().Annotations[gang.AnnotationRankOrder]; order != "" {
		// The user may have set the annotation of the template, which admission does not check.
		r.Gang.RankOrder, _ = gang.ParseRankOrder(order)
	}
	r.Children.HostOrder = hostfile.OrderName(r.Gang)
	r.Gang.Queue = w.Template().Annotations[gang.AnnotationQueue]
	r.Gang.Placement = scheduling.FindPlacement(w.Template(), r.Gang)
	r.Children.PodGroup = ""
	if p := r.Gang.Placement; scheduling.HasPodGroups(p.Scheduler) && p.PodGroup == r.Gang.OwnPodGroup() {
		r.Children.PodGroup = r.Gang.Placement.PodGroup
	}
}

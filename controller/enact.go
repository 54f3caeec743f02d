package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// wish is what is to become of a member's pods.
type wish int

const (
	// asIs leaves the member as it is.
	asIs wish = iota
	// stop takes its pods away, to begin anew.
	stop
	// letGo lets a member that was stopped have pods again.
	letGo
	// handOver leaves it to the queue of a Job that was stopped to let it have pods again.
	handOver
	// end makes a Job fail for good, which takes its pods away.
	end
	// mark gives the pods of a Job that is held back the number of their attempt. Those of
	// one that waits in a queue get it at admission, when it is let go.
	mark
	// rest takes the pods of a member away whose gang is done without it.
	rest
)

// wished is what the gang's state asks of a member.
func wished(p *party, m member, s gang.State) wish {
	seen := m.observe()
	switch {
	case seen.Complete || seen.Failed || m.Foreign():
		return asIs
	case s.Phase == gang.Restarting:
		return stop
	case s.Phase == gang.Failed && s.Cause != nil:
		return end
	case s.Phase.Terminal() && p.lifecycle().Clean == gang.CleanNone:
		return asIs
	case s.Phase == gang.Failed:
		return end
	case s.Phase == gang.Succeeded:
		return rest
	case s.Phase == gang.Suspended:
		return heldMeanwhile(p, seen)
	case seen.Queued && seen.Stopped:
		return handOver
	default:
		return letGo
	}
}

// heldMeanwhile is what a gang that another holds back asks of a member.
func heldMeanwhile(p *party, seen gang.Observation) wish {
	switch {
	case !seen.Halted:
		return asIs
	case !seen.Queued:
		return mark // whatever held it back lets it go
	case seen.Stopped && !p.roll.Kept():
		return handOver
	default:
		return asIs
	}
}

// enact writes what the gang's state asks of a member to its spec, and the state with
// it: by one write, so that whoever follows the gang after a crash finds both or
// neither. It reports whether there was something to write.
func (r *Reconciler) enact(ctx context.Context, p *party, m member, s gang.Status) (bool, error) {
	changed := m.DeepCopy()
	if !change(changed, wished(p, m, s.State()), &s, m.told()) {
		return false, nil
	}
	text, err := s.Text()
	if err != nil {
		return false, err
	}
	meta := changed.Meta()
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[gang.AnnotationStatus], meta.Labels[gang.LabelPhase] = text, string(s.Phase)
	patch := client.MergeFromWithOptions(m.object(), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed.Object().(client.Object), patch, FieldOwner); err != nil {
		return false, fmt.Errorf("telling %s that its gang is %s: %w", m.Meta().Name, s.Phase, err)
	}
	log.FromContext(ctx).Info("Changed a member", "phase", s.Phase, "attempt", s.Attempt, "member", m.Meta().Name, "stopped", s.Stopped)
	return true, nil
}

// change brings about a wish, and notes in s whether the member is stopped by it. It
// reports whether it changed anything.
func change(w gang.Workload, what wish, s *gang.Status, told gang.Status) bool {
	s.Stopped = stays(w, told, s.Phase)
	switch what {
	case rest:
		if w.Job != nil {
			s.Stopped = false
			return retire(w)
		}
		fallthrough
	case stop:
		if heldBack(w) || told.Stopped {
			return false // another let it go: to hold it again would be a quarrel without end
		}
		s.Stopped = true
		hold(w)
		return true
	case end:
		return endFor(w, s)
	case mark:
		return w.Number(s.Attempt)
	case letGo:
		if !heldByUs(w, told) {
			return false
		}
		s.Stopped = false
		return release(w, s.Attempt)
	case handOver:
		if !heldByUs(w, told) {
			return false
		}
		s.Stopped = false
		w.Number(s.Attempt)
		return true
	default:
		return false
	}
}

// heldByUs reports whether a member is held back, and by Rollcall.
func heldByUs(w gang.Workload, told gang.Status) bool { return told.Stopped && heldBack(w) }

// stays reports whether a member counts as one that we stopped. One that another has
// let go since does until its gang has heard of it.
func stays(w gang.Workload, told gang.Status, phase gang.Phase) bool {
	return told.Stopped && (heldBack(w) || phase == gang.Restarting || phase.Terminal())
}

// hold lets a workload have no pods.
func hold(w gang.Workload) {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(true)
		return
	}
	w.StatefulSet.Spec.Replicas = ptr.To[int32](0)
}

// release lets a workload have its pods again. Those of a Job bear the number of their
// attempt: its template's labels may change while it is suspended (KEP-2926).
func release(w gang.Workload, attempt int32) bool {
	if w.Job != nil {
		w.Job.Spec.Suspend = ptr.To(false)
		w.Number(attempt)
		return true
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record == nil || record.Size == 0 {
		return false // edited since; its user scales it up
	}
	w.StatefulSet.Spec.Replicas = ptr.To(record.Size)
	return true
}

// retire lets a Job be complete whose gang is done: it is to have no pods, and has that
// many. An Indexed Job's number of completions may change with its parallelism (KEP-3715).
// So its time to live begins, and whoever waits for it hears of its end.
//
// A successPolicy cannot change and names indexes, or a number of them, which the API server
// wants to be below completions: a Job with one has no pods any more, and no end.
func retire(w gang.Workload) bool {
	spec := &w.Job.Spec
	completions := ptr.To[int32](0)
	if spec.SuccessPolicy != nil {
		completions = spec.Completions
	}
	if ptr.Deref(spec.Parallelism, 1) == 0 && ptr.Equal(spec.Completions, completions) && !ptr.Deref(spec.Suspend, false) {
		return false
	}
	spec.Parallelism, spec.Completions, spec.Suspend = ptr.To[int32](0), completions, ptr.To(false)
	if spec.MaxFailedIndexes != nil {
		spec.MaxFailedIndexes = ptr.To(min(*spec.MaxFailedIndexes, ptr.Deref(completions, 0))) // at most so many
	}
	return true
}

// endFor makes a Job fail. A deadline that has passed is the one way that needs no pod
// to fail and no other write; what it was really, the gang's own condition tells. A
// StatefulSet has no such end.
func endFor(w gang.Workload, s *gang.Status) bool {
	if w.StatefulSet != nil {
		if heldBack(w) {
			return false
		}
		s.Stopped = true
		hold(w)
		return true
	}
	spec := &w.Job.Spec
	if ptr.Deref(spec.ActiveDeadlineSeconds, 1) == 0 && !ptr.Deref(spec.Suspend, false) {
		return false
	}
	s.Stopped = false
	spec.ActiveDeadlineSeconds, spec.Suspend = ptr.To[int64](0), ptr.To(false)
	return true
}

package gang

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Phase is where a gang stands in its life.
type Phase string

// The phases of this release. The zero value means that Rollcall has not looked
// at the workload yet.
const (
	// Pending: not all ranks are ready, and none of them failed for good.
	Pending Phase = "Pending"
	// Running: all ranks were ready at once, and none had to be replaced since. A rank
	// that restarts within its pod, or has just ended, does not take the gang back.
	Running Phase = "Running"
	// Succeeded: the workload is complete. Terminal.
	Succeeded Phase = "Succeeded"
	// Failed: the workload failed for good. Terminal.
	Failed Phase = "Failed"
)

// Phases lists all phases in the order in which they are gone through.
func Phases() []Phase { return []Phase{Pending, Running, Succeeded, Failed} }

// Reason is the code under which entering the phase is reported.
func (p Phase) Reason() Reason {
	switch p {
	case Running:
		return ReasonGangRunning
	case Succeeded:
		return ReasonGangSucceeded
	case Failed:
		return ReasonGangFailed
	default:
		return ReasonGangPending
	}
}

// Observation is what a workload's own status says about its ranks.
type Observation struct {
	// Size is the number of ranks that should run.
	Size int32
	// Ready is the number that are ready now.
	Ready int32
	// Present is the number that have a pod that has not failed, or are done. A rank
	// that is done is not ready any more, so Ready alone cannot tell a gang that
	// ends from one that broke.
	Present int32
	// Suspended is true when the user or a queue holds the workload back: a Job by
	// spec.suspend, a StatefulSet by replicas: 0.
	Suspended bool
	// Complete and Failed are the workload's own verdicts; Message explains them.
	Complete, Failed bool
	Message          string
}

// Observe reads a workload's status.
func Observe(w Workload) Observation {
	if set := w.StatefulSet; set != nil {
		o := Observation{Size: w.Ranks()}
		o.Suspended = o.Size == 0
		// A status that is older than the spec counts ranks of another size.
		if set.Status.ObservedGeneration >= set.Generation {
			o.Ready, o.Present = set.Status.ReadyReplicas, set.Status.ReadyReplicas
		}
		return o
	}
	o := Observation{
		Size:      w.Ranks(),
		Ready:     ptr.Deref(w.Job.Status.Ready, 0),
		Present:   w.Job.Status.Active + w.Job.Status.Succeeded,
		Suspended: ptr.Deref(w.Job.Spec.Suspend, false),
	}
	if u := w.Job.Status.UncountedTerminatedPods; u != nil {
		o.Present += int32(len(u.Succeeded)) // done, and counted by the next write
	}
	for _, c := range w.Job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			o.Complete = true
		case batchv1.JobFailed:
			o.Failed, o.Message = true, c.Reason+": "+c.Message
		}
	}
	return o
}

// Next is the phase of a gang that was in phase now and is seen as o. A Job's
// verdict is final, and so is the phase that follows from it; the phase that was
// written is no verdict, since anybody can write a label.
func Next(now Phase, o Observation) Phase {
	switch {
	case o.Complete:
		return Succeeded
	case o.Failed:
		return Failed
	case o.Suspended || o.Size == 0:
		return Pending
	case o.Ready >= o.Size:
		return Running
	case now == Running && o.Present >= o.Size:
		return Running // some ranks are done before the others
	default:
		return Pending
	}
}

// Describe says the phase in a sentence for users. It holds no count that moves
// while the phase stays: each change of it would be one more write.
func (o Observation) Describe(p Phase) string {
	switch p {
	case Running:
		return fmt.Sprintf("All %d ranks are ready", o.Size)
	case Succeeded:
		return "The gang is done"
	case Failed:
		return "The gang failed: " + o.Message
	}
	if o.Suspended {
		return "Held back: no rank is to run"
	}
	return fmt.Sprintf("Waiting until all %d ranks are ready", o.Size)
}

// PhaseOf reads the phase that was last written to a workload; a value that is no
// phase counts as none.
func PhaseOf(w Workload) Phase {
	p := Phase(w.Meta().Labels[LabelPhase])
	if !slices.Contains(Phases(), p) {
		return ""
	}
	return p
}

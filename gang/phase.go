package gang

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Phase is where a gang stands in its life.
type Phase string

// The phases of this release. The zero value means that Rollcall has not looked
// at the workload yet.
const (
	// Pending: no rank is ready, and none of them failed for good.
	Pending Phase = "Pending"
	// Starting: some ranks are ready, and not yet all.
	Starting Phase = "Starting"
	// Running: all ranks were ready at once, and none had to be replaced since. A rank
	// that has just ended does not take the gang back.
	Running Phase = "Running"
	// Restarting: the gang fell, and its ranks are being stopped to begin anew together.
	Restarting Phase = "Restarting"
	// Suspended: the user or a queue holds the gang back.
	Suspended Phase = "Suspended"
	// Succeeded: the member whose end is the gang's is complete, or all of them are.
	// Terminal.
	Succeeded Phase = "Succeeded"
	// Failed: a member failed for good before that, or the gang fell and is not to be
	// restarted. Terminal.
	Failed Phase = "Failed"
)

// Phases lists all phases in the order in which they are gone through.
func Phases() []Phase {
	return []Phase{Pending, Starting, Running, Restarting, Suspended, Succeeded, Failed}
}

// Terminal reports whether a gang stays in the phase.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed }

// Reason is the code under which entering the phase is reported.
func (p Phase) Reason() Reason {
	switch p {
	case Starting:
		return ReasonGangStarting
	case Running:
		return ReasonGangRunning
	case Restarting:
		return ReasonGangRestarting
	case Suspended:
		return ReasonGangSuspended
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
	// Set is true for a StatefulSet, which never ends by itself.
	Set bool
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
	// Stopped is true when it is Rollcall that holds the workload back.
	Stopped bool
	// Queued is true when a queue lets the workload go, and holds it back when it has no
	// room.
	Queued bool
	// Halted is true when a workload that is held back has heard of it, and wants no pod
	// to run.
	Halted bool
	// Leaving is how many pods of a Job were told to go and are not gone, as it counts
	// them. Those of a node that does not answer may stay for good.
	Leaving int32
	// Fallen is how many pods of a Job failed or were taken away, as it counts them.
	Fallen int32
	// Done is how many ranks of a Job ended well. Kubernetes never starts those again.
	Done int32
	// Ending is true when a Job has its verdict and waits for its pods to go.
	Ending bool
	// Complete and Failed are the workload's own verdicts; Message explains them.
	Complete, Failed bool
	Message          string
	// Ended is when the verdict was given, to the second.
	Ended time.Time
}

// Observe reads a workload's status.
func Observe(w Workload) Observation {
	if set := w.StatefulSet; set != nil {
		o := Observation{Set: true, Size: w.Ranks()}
		o.Suspended = o.Size == 0
		o.Stopped = o.Suspended && StatusOf(w).Stopped
		// A status that is older than the spec counts ranks of another size.
		if set.Status.ObservedGeneration >= set.Generation {
			o.Ready, o.Present = set.Status.ReadyReplicas, set.Status.ReadyReplicas
			o.Halted = o.Suspended && set.Status.Replicas == 0
		}
		return o
	}
	o := Observation{
		Size:      w.Ranks(),
		Ready:     ptr.Deref(w.Job.Status.Ready, 0),
		Present:   w.Job.Status.Active + w.Job.Status.Succeeded,
		Suspended: ptr.Deref(w.Job.Spec.Suspend, false),
		Fallen:    w.Job.Status.Failed,
		Done:      w.Job.Status.Succeeded,
		Leaving:   ptr.Deref(w.Job.Status.Terminating, 0),
		Queued:    w.Queue() != "",
	}
	o.Stopped = o.Suspended && StatusOf(w).Stopped
	if u := w.Job.Status.UncountedTerminatedPods; u != nil { // counted by the next write
		o.Present += int32(len(u.Succeeded))
		o.Done += int32(len(u.Succeeded))
		o.Fallen += int32(len(u.Failed))
	}
	for _, c := range w.Job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobSuspended:
			o.Halted = o.Suspended && w.Job.Status.Active == 0
		case batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget:
			o.Ending = true
		case batchv1.JobComplete:
			o.Complete, o.Ended = true, c.LastTransitionTime.Time
		case batchv1.JobFailed:
			o.Failed, o.Message, o.Ended = true, c.Reason+": "+c.Message, c.LastTransitionTime.Time
		}
	}
	return o
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

package lifecycle

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Observation is what the spec and the status of one workload contain about its ranks.
type Observation struct {
	// UID is the UID of the workload; empty if it is not known.
	UID types.UID
	// IsStatefulSet is true for a StatefulSet, which has no condition for completion or failure.
	IsStatefulSet bool
	// Size is the number of ranks that the spec asks for.
	Size int32
	// ReadyPods is the number of ready pods. ReportedReadyPods is that of the status of the workload, also if the cache
	// does not contain the pods yet.
	ReadyPods, ReportedReadyPods int32
	// SucceededPods is the number of ranks of a Job that have succeeded. For a StatefulSet, [State.Observe] sets the
	// number of those that are not ready.
	SucceededPods int32
	// ActivePods is the number of ranks of a Job with a pod that has not finished, and of ready ranks of a StatefulSet. A
	// rank that succeeded is not ready any more, so only both numbers distinguish a gang that finishes from a gang that
	// lost a rank.
	ActivePods int32
	// Suspended is true if the spec suspends the workload; see [gang.Workload.IsSuspended].
	Suspended bool
	// SuspendedByRollcall is true if Rollcall suspended the workload.
	SuspendedByRollcall bool
	// ManagedByQueue is true if a queue suspends and resumes the workload.
	ManagedByQueue bool
	// SuspensionObserved is true if the workload is suspended, its controller has observed that,
	// and its status counts no active pod. Pods of a Job may still be terminating.
	SuspensionObserved bool
	// TerminatingPods is the number of terminating pods that a Job counts. Pods on an unreachable node
	// may stay terminating indefinitely.
	TerminatingPods int32
	// FailedPods is the number of failed or deleted pods that a Job counts: status.failed and the
	// failed pods of status.uncountedTerminatedPods.
	FailedPods int32
	// StartTime is when the controller of a Job started the Job; zero if it has not, or if the Job is
	// suspended.
	StartTime time.Time
	// Finishing is true if a Job is about to complete the gang, or to fail because of its deadline. It is false
	// after the Job has a result.
	Finishing bool
	// Complete and Failed are the results of the workload. The result of a Job is final before its last
	// pods have terminated: the Job then has the condition SuccessCriteriaMet or FailureTarget.
	Complete, Failed bool
	// Message is the reason and the message of a failed Job.
	Message string
	// FinishTime is when the result of the workload became final, to the second.
	FinishTime time.Time
}

// HasResult reports whether the workload is complete or has failed.
func (o Observation) HasResult() bool { return o.Complete || o.Failed }

// Observe reads the spec and the status of a workload. ManagedByQueue is true if the workload names a
// queue, whether the cluster has a controller for the queue or not.
func Observe(w gang.Workload) Observation {
	var o Observation
	if w.StatefulSet != nil {
		o = observeStatefulSet(w)
	} else {
		o = observeJob(w)
	}
	o.UID, o.Suspended = w.Meta().UID, w.IsSuspended()
	o.SuspensionObserved = o.SuspensionObserved && o.Suspended
	o.SuspendedByRollcall = o.Suspended && ReadStatus(w).SuspendedByRollcall
	return o
}

// observeStatefulSet ignores a status that is older than the spec, because it counts the ranks of
// another size.
func observeStatefulSet(w gang.Workload) Observation {
	o := Observation{IsStatefulSet: true, Size: w.Ranks()}
	if status := w.StatefulSet.Status; status.ObservedGeneration >= w.StatefulSet.Generation {
		o.ReadyPods, o.ActivePods = status.ReadyReplicas, status.ReadyReplicas
		o.SuspensionObserved = status.Replicas == 0
	}
	return o
}

func observeJob(w gang.Workload) Observation {
	status := w.Job.Status
	o := Observation{
		Size:            w.Ranks(),
		ReadyPods:       ptr.Deref(status.Ready, 0),
		SucceededPods:   status.Succeeded,
		ActivePods:      status.Active,
		FailedPods:      status.Failed,
		TerminatingPods: ptr.Deref(status.Terminating, 0),
		ManagedByQueue:  w.QueueName() != "",
	}
	if status.StartTime != nil {
		o.StartTime = status.StartTime.Time
	}
	if uncounted := status.UncountedTerminatedPods; uncounted != nil {
		// The next write of the Job controller adds them to the counts.
		o.SucceededPods += int32(len(uncounted.Succeeded))
		o.FailedPods += int32(len(uncounted.Failed))
	}
	for _, c := range status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobSuspended:
			o.SuspensionObserved = status.Active == 0
		case batchv1.JobSuccessCriteriaMet, batchv1.JobComplete:
			o.Complete = true
			o.setFinishTime(c)
		case batchv1.JobFailureTarget, batchv1.JobFailed:
			o.Failed, o.Message = true, c.Reason+": "+c.Message
			o.setFinishTime(c)
		}
	}
	return o
}

// setFinishTime sets the finish time to the earliest transition of the conditions that contain the result.
// A Job that has finished keeps the condition SuccessCriteriaMet or FailureTarget.
func (o *Observation) setFinishTime(c batchv1.JobCondition) {
	if t := c.LastTransitionTime.Time; o.FinishTime.IsZero() || t.Before(o.FinishTime) {
		o.FinishTime = t
	}
}

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
)

// Conditions that a Job carries, for kubectl wait. A condition is added when its
// phase is first reached.
const (
	ConditionRunning   batchv1.JobConditionType = "GangRunning"
	ConditionSucceeded batchv1.JobConditionType = "GangSucceeded"
	ConditionFailed    batchv1.JobConditionType = "GangFailed"
)

// Status is the content of the annotation [gang.AnnotationStatus].
type Status struct {
	Phase   gang.Phase  `json:"phase,omitempty"`
	Reason  gang.Reason `json:"reason"`
	Message string      `json:"message"`
	// Since is when the phase was entered.
	Since time.Time `json:"since"`
}

// followPhase writes the gang's phase when it moved.
func (r *Reconciler) followPhase(ctx context.Context, w gang.Workload, seen gang.Observation) error {
	now := gang.PhaseOf(w)
	next := gang.Next(now, seen)
	if next == now {
		return nil
	}
	s := Status{Phase: next, Reason: next.Reason(), Message: seen.Describe(next), Since: r.Clock.Now().UTC().Truncate(time.Second)}
	if err := r.writeStatus(ctx, w, s); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Gang entered phase", "phase", next, "before", now)
	if next == gang.Failed {
		r.warning(w, s.Reason, actionFollow, "%s", s.Message)
	} else {
		r.normal(w, s.Reason, actionFollow, "%s", s.Message)
	}
	return nil
}

// reportMissed says, once, that a labelled workload was never injected. It is not
// mended here: a running gang is not touched, and a Job's template cannot change.
func (r *Reconciler) reportMissed(ctx context.Context, w gang.Workload) error {
	s := Status{Reason: gang.ReasonNotInjected, Since: r.Clock.Now().UTC().Truncate(time.Second),
		Message: "The workload carries the label but was admitted without Rollcall: in a namespace that it leaves alone, " +
			"or while it could not be called; to have it injected, delete it and create it anew where Rollcall looks"}
	var said Status
	if json.Unmarshal([]byte(w.Meta().Annotations[gang.AnnotationStatus]), &said) == nil && said.Reason == s.Reason {
		return nil
	}
	if err := r.writeStatus(ctx, w, s); err != nil {
		return err
	}
	r.warning(w, s.Reason, actionLook, "%s", s.Message)
	return nil
}

// writeStatus writes label, annotation and conditions by one patch. The patch
// carries the resource version that was read: a decision made on a stale cache is
// refused by the API server and made again.
func (r *Reconciler) writeStatus(ctx context.Context, w gang.Workload, s Status) error {
	before := w.DeepCopy()
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", w.Meta().Name, err)
	}
	meta := w.Meta()
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[gang.AnnotationStatus] = string(text)
	if s.Phase != "" {
		meta.Labels[gang.LabelPhase] = string(s.Phase)
	}
	if w.Job != nil {
		w.Job.Status.Conditions = conditions(w.Job.Status.Conditions, s)
	}
	patch := client.MergeFromWithOptions(before.Object().(client.Object), client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, w.Object().(client.Object), patch, FieldOwner); err != nil {
		return fmt.Errorf("writing the status of %s: %w", meta.Name, err)
	}
	return nil
}

// conditions sets the condition of the phase to true and takes GangRunning back
// when the gang runs no longer.
func conditions(have []batchv1.JobCondition, s Status) []batchv1.JobCondition {
	out := append([]batchv1.JobCondition(nil), have...)
	set := func(t batchv1.JobConditionType, status corev1.ConditionStatus) {
		c := batchv1.JobCondition{
			Type: t, Status: status, Reason: string(s.Reason), Message: s.Message,
			LastProbeTime: metav1.NewTime(s.Since), LastTransitionTime: metav1.NewTime(s.Since),
		}
		for i := range out {
			if out[i].Type == t {
				if out[i].Status != status {
					out[i] = c
				}
				return
			}
		}
		if status == corev1.ConditionTrue {
			out = append(out, c)
		}
	}
	switch s.Phase {
	case gang.Running:
		set(ConditionRunning, corev1.ConditionTrue)
	case gang.Succeeded:
		set(ConditionRunning, corev1.ConditionFalse)
		set(ConditionSucceeded, corev1.ConditionTrue)
	case gang.Failed:
		set(ConditionRunning, corev1.ConditionFalse)
		set(ConditionFailed, corev1.ConditionTrue)
	case gang.Pending:
		set(ConditionRunning, corev1.ConditionFalse)
	}
	return out
}

package controller

import (
	"context"
	"fmt"
	"slices"
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

// followState brings a gang's state to its members: to the first one first, which is
// where it is read from, and to the others when that is written.
func (r *Reconciler) followState(ctx context.Context, p *party, next gang.State) {
	s, ok := r.word(ctx, p, next)
	if !ok {
		return
	}
	for _, m := range p.members {
		if !m.injected() {
			continue
		}
		if err := r.bring(ctx, p, m, s); err != nil {
			p.look.met(err)
			if m.Meta().UID == p.first().Meta().UID {
				return
			}
		}
	}
}

// bring writes a state to one member: to its spec what it asks for, else to its status
// what it says.
func (r *Reconciler) bring(ctx context.Context, p *party, m member, s gang.Status) error {
	uid, version := m.Meta().UID, m.Meta().ResourceVersion
	if p.several && r.memory.of(p.look.request).written[uid] == version {
		// The write to the first member brings us back before the cache has seen that to
		// the second, which would only be refused if it were made again.
		return nil
	}
	if err := r.rewind(ctx, p, m, s); err != nil {
		return err
	}
	before := m.told() // the writes change what was read
	wrote, err := r.enact(ctx, p, m, s)
	if err == nil && !wrote {
		wrote, err = r.tell(ctx, m, s)
	}
	if err != nil || !wrote {
		return err
	}
	if p.several {
		r.memory.of(p.look.request).wrote(uid, version)
	}
	r.announce(ctx, m, s, before)
	if m.Meta().UID == p.first().Meta().UID {
		measure(m.Template().Labels[gang.LabelFramework], s, before.Phase)
	}
	return nil
}

// word is what is to be said about a gang that enters a state, or is in it. It is false
// when nothing shall be said yet.
func (r *Reconciler) word(ctx context.Context, p *party, next gang.State) (gang.Status, bool) {
	s, ok := gang.Status{}, true
	switch {
	case p.several && next.Phase == gang.Succeeded:
		s, ok = r.idleHosts(ctx, p)
	case p.several && (next.Phase == gang.Pending || next.Phase == gang.Starting || next.Phase == gang.Running):
		s, ok = r.trouble(ctx, p)
	}
	if s.Reason == "" {
		s = p.stuck(next)
	}
	if s.Reason == "" {
		s.Reason, s.Message = next.Phase.Reason(), next.Describe(p.lifecycle(), p.roll)
	}
	return s.With(next), ok
}

// tell writes a status to one member, unless it knows.
func (r *Reconciler) tell(ctx context.Context, m member, s gang.Status) (bool, error) {
	before, said := gang.PhaseOf(m.Workload), m.told()
	s.Stopped = stays(m.Workload, said, s.Phase)
	if before == s.Phase && said.Phase == s.Phase && special(said.Reason) != special(s.Reason) {
		s.Since = said.Since
	}
	// In a phase, the plain word for it may be missing, or be another release's.
	same := said.Reason == s.Reason && said.Message == s.Message || !special(said.Reason) && !special(s.Reason)
	if before == s.Phase && same && said.Attempt == s.Attempt && said.Stopped == s.Stopped && said.Cause.Same(s.Cause) && settled(m.Workload, s) {
		return false, nil
	}
	return true, r.writeStatus(ctx, m.Workload, s)
}

// settled reports whether a workload's conditions say what a status says.
func settled(w gang.Workload, s gang.Status) bool {
	if w.Job == nil {
		return true
	}
	have := w.Job.Status.Conditions
	want := conditions(have, s)
	return len(have) == len(want) && !slices.ContainsFunc(want, func(c batchv1.JobCondition) bool {
		return !slices.ContainsFunc(have, func(h batchv1.JobCondition) bool { return h.Type == c.Type && h.Status == c.Status })
	})
}

// announce tells users and operators of a phase that was entered.
func (r *Reconciler) announce(ctx context.Context, m member, s, before gang.Status) {
	same := before.Phase == s.Phase && before.Attempt == s.Attempt
	if same && (before.Reason == s.Reason || s.Phase == gang.Restarting && !special(s.Reason)) {
		return // one more write about the same, or a pod that hung is gone
	}
	log.FromContext(ctx).Info("Gang entered phase", "phase", s.Phase, "before", before.Phase, "reason", s.Reason, "attempt", s.Attempt, "member", m.Meta().Name)
	switch {
	case s.Phase == gang.Failed || s.Phase == gang.Restarting, s.Reason == gang.ReasonMembersDisagree, s.Reason == gang.ReasonRanksOnOneHost, s.Reason == gang.ReasonPodStuck:
		r.warning(m.Workload, s.Reason, actionFollow, "%s", s.Message)
	default:
		r.normal(m.Workload, s.Reason, actionFollow, "%s", s.Message)
	}
}

// special tells what is said beside the phase from the plain word for it.
func special(reason gang.Reason) bool {
	switch reason {
	case gang.ReasonMembersDisagree, gang.ReasonMembersMissing, gang.ReasonRanksOnOneHost, gang.ReasonPodStuck:
		return true
	default:
		return false
	}
}

// reportMissed says, once, that a labelled workload was never injected. It is not
// mended here: a running gang is not touched, and a Job's template cannot change.
func (r *Reconciler) reportMissed(ctx context.Context, w gang.Workload) error {
	s := gang.Status{Reason: gang.ReasonNotInjected, Since: r.Clock.Now().UTC().Truncate(time.Second),
		Message: "The workload carries the label but was admitted without Rollcall: in a namespace that it leaves alone, " +
			"or while it could not be called; to have it injected, delete it and create it anew where Rollcall looks"}
	if gang.StatusOf(w).Reason == s.Reason {
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
func (r *Reconciler) writeStatus(ctx context.Context, w gang.Workload, s gang.Status) error {
	before := w.DeepCopy()
	text, err := s.Text()
	if err != nil {
		return err
	}
	meta := w.Meta()
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[gang.AnnotationStatus] = text
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
func conditions(have []batchv1.JobCondition, s gang.Status) []batchv1.JobCondition {
	out := append([]batchv1.JobCondition(nil), have...)
	set := func(t batchv1.JobConditionType, status corev1.ConditionStatus) {
		c := batchv1.JobCondition{
			Type: t, Status: status, Reason: string(s.Reason), Message: s.Message,
			LastProbeTime: metav1.NewTime(s.Since), LastTransitionTime: metav1.NewTime(s.Since),
		}
		for i := range out {
			if out[i].Type == t {
				switch {
				case out[i].Status != status:
					out[i] = c
				case status == corev1.ConditionTrue && t == ConditionFailed: // its first cause may turn up late
					out[i].Message = s.Message
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
	default:
		set(ConditionRunning, corev1.ConditionFalse)
	}
	return out
}

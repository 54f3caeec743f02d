package controller

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// settling is how long some ranks of a gang are ready before one says that it is
// starting: most gangs are whole by then, and spared the write.
const settling = 3 * time.Second

// sight looks at a gang's members and their pods.
func (r *Reconciler) sight(ctx context.Context, p *party, state gang.State) (gang.Sight, error) {
	now := r.Clock.Now()
	see := gang.Sight{Roll: p.roll, Now: now, Stopped: p.roll.Halted()}
	watch := gang.Watch{Attempt: state.Attempt, Fell: state.Fell}
	for i := range p.members {
		m := &p.members[i]
		if m.result == nil {
			continue
		}
		pods, err := r.pods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return see, err
		}
		m.pods = len(pods)
		if m.StatefulSet != nil {
			p.roll.End(m.Meta().Name, pods, m.told())
			pods = current(m.StatefulSet, pods)
		}
		g := &m.result.Gang
		see.Fall = gang.Earlier(see.Fall, gang.FirstFall(pods, g.Offset, watch))
		see.Lacking = append(see.Lacking, gang.Lacking(pods, g.Own(), g.Offset)...)
		see.Started = r.started(p, pods, now) || see.Started
		for j := range pods {
			if holds(&pods[j], now) {
				see.Stopped = false
				if d := pods[j].DeletionTimestamp; d != nil {
					p.look.again(d.Add(overdue).Sub(now))
				}
			}
		}
		if m.told().Stopped && !heldBack(m.Workload) {
			see.Resumed = true
		}
	}
	return see, nil
}

// told is what was last said to the member.
func (m member) told() gang.Status { return gang.StatusOf(m.Workload) }

// heldBack reports whether a workload has been told to have no pods.
func heldBack(w gang.Workload) bool {
	return w.Job != nil && w.Job.Spec.Suspend != nil && *w.Job.Spec.Suspend || w.StatefulSet != nil && w.Ranks() == 0
}

// started reports whether some rank has been ready for a while; if one has not yet, it
// asks for another look then.
func (r *Reconciler) started(p *party, pods []corev1.Pod, now time.Time) bool {
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
				continue
			}
			if since := now.Sub(c.LastTransitionTime.Time); since < settling {
				p.look.again(settling - since)
				continue
			}
			return true
		}
	}
	return false
}

// current leaves out the pods of a StatefulSet that a rollout or a new size replaces:
// they go because their user wanted it.
func current(set *appsv1.StatefulSet, pods []corev1.Pod) []corev1.Pod {
	record, err := plan.ReadRecord(gang.Workload{StatefulSet: set})
	if err != nil || record == nil {
		return pods
	}
	size := record.Size
	if set.Spec.Replicas != nil && *set.Spec.Replicas > 0 {
		size = *set.Spec.Replicas
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		revision := set.Status.UpdateRevision
		return gang.IndexOf(&pod) >= size || pod.DeletionTimestamp != nil && revision != "" && pod.Labels[labelRevision] != revision
	})
}

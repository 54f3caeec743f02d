package controller

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	for i := range p.members {
		m := &p.members[i]
		if m.result == nil {
			continue
		}
		pods, err := r.pods(ctx, m.Meta().Namespace, m.Meta().UID)
		if err != nil {
			return see, err
		}
		p.look.pods += len(pods)
		m.pods = staying(pods)
		if m.StatefulSet != nil {
			p.roll.End(m.Meta().Name, pods, m.trains(), m.told())
		}
		g := &m.result.Gang
		watch := p.watch(m, pods, state)
		see.Fall = gang.Earlier(see.Fall, gang.FirstFall(current(m.Workload, pods), g.Offset, watch))
		see.Lacking = append(see.Lacking, gang.Lacking(pods, g.Own(), g.Offset, watch.Trains)...)
		see.Started = r.started(p, pods, now) || see.Started
		r.stopping(p, m, pods, &see)
		p.hangs(m, pods, state, now)
		if m.told().Stopped && !heldBack(m.Workload) {
			see.Resumed = true
		}
	}
	return see, nil
}

// watch is what is known of the attempt whose falls are looked for among the pods of a
// member. While the gang is being stopped for the next one, that is the one that fell.
func (p *party) watch(m *member, pods []corev1.Pod, state gang.State) gang.Watch {
	seen := gang.Observe(m.Workload)
	w := gang.Watch{Attempt: state.Attempt, Fell: state.Fell, Begun: state.Begun, Trains: m.trains(),
		Stopping: p.roll.HeldBack() || state.Phase.Terminal() || seen.Ending || seen.Failed || seen.Complete || succeeds(m.Job, pods)}
	if state.Phase == gang.Restarting || state.Phase == gang.Failed && state.Cause != nil {
		w.Told = state.Since
	}
	if state.Phase == gang.Restarting {
		w.Attempt, w.Fell, w.Stopping = state.Attempt-1, time.Time{}, true
	}
	return w
}

// succeeds reports whether a Job may be about to end by its successPolicy: it takes the
// other pods away before it says so.
func succeeds(job *batchv1.Job, pods []corev1.Pod) bool {
	return job != nil && job.Spec.SuccessPolicy != nil && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded
	})
}

// trains names the training containers.
func (m member) trains() []string {
	var out []string
	for _, c := range m.result.Gang.Containers {
		out = append(out, c.Name)
	}
	return out
}

// stopping looks whether pods of a member still keep the gang from beginning anew.
func (r *Reconciler) stopping(p *party, m *member, pods []corev1.Pod, see *gang.Sight) {
	var lost int32
	for i := range pods {
		d := pods[i].DeletionTimestamp
		switch {
		case finished(&pods[i]):
			continue
		case !holds(&pods[i], see.Now):
			lost++
			continue
		case d != nil:
			see.Leaving = true
			p.look.again(d.Add(overdue).Sub(see.Now))
		}
		see.Stopped = false
	}
	see.Uncounted += uncounted(m.Job, pods)
	// The Job may know of pods that the cache does not show yet.
	if gang.Observe(m.Workload).Leaving > lost {
		see.Stopped = false
	}
}

// staying counts the pods that nobody told to go.
func staying(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// uncounted is how many pods a Job will count as failed: their finalizer says that it has
// not yet (kubernetes pkg/controller/job). One with backoffLimitPerIndex does so when it
// replaces them, which is in the next attempt.
func uncounted(job *batchv1.Job, pods []corev1.Pod) int32 {
	if job == nil {
		return 0
	}
	var known []types.UID // counted already, in the Job's status
	if u := job.Status.UncountedTerminatedPods; u != nil {
		known = u.Failed
	}
	var n int32
	for i := range pods {
		p := &pods[i]
		fell := p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded
		if fell && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) && !slices.Contains(known, p.UID) {
			n++
		}
	}
	return n
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

// current leaves out the pods that a rollout of a StatefulSet or a new size of a workload
// replaces: they go because their user wanted it. Of a set whose ranks do not know its size
// yet, none is left: it is about to roll, and to stop it meanwhile would bring it back with
// the size that it had.
func current(w gang.Workload, pods []corev1.Pod) []corev1.Pod {
	set := w.StatefulSet
	if set == nil { // a Job, whose template does not change
		beyond := func(pod corev1.Pod) bool { return gang.IndexOf(&pod) >= w.Ranks() }
		if !slices.ContainsFunc(pods, beyond) {
			return pods // mostly, and without a copy of all
		}
		return slices.DeleteFunc(slices.Clone(pods), beyond)
	}
	record, err := plan.ReadRecord(w)
	if err != nil || record == nil {
		return pods
	}
	size := record.Size
	if set.Spec.Replicas != nil && *set.Spec.Replicas > 0 {
		size = *set.Spec.Replicas
	}
	if size != record.Size {
		return nil
	}
	rolls := set.Status.ObservedGeneration < set.Generation || set.Status.CurrentRevision != set.Status.UpdateRevision
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		return gang.IndexOf(&pod) >= size || pod.DeletionTimestamp != nil && rolls
	})
}

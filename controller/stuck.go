package controller

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// silence is how long after its grace period a pod is said to hang. Its kubelet kills
// what runs when that period is over, and then has volumes to unmount.
const silence = 10 * time.Second

// hangs notes the first pod of a member that was told to go and does not, while the gang
// waits for that: its node does not answer, and Kubernetes leaves it to an administrator
// to say that the node is gone. It asks for another look when that is due.
func (p *party) hangs(m *member, pods []corev1.Pod, state gang.State, now time.Time) {
	if state.Phase != gang.Restarting && !m.waitsForNames() {
		return
	}
	for i := range pods {
		d := pods[i].DeletionTimestamp
		if d == nil || finished(&pods[i]) || pods[i].Spec.NodeName == "" {
			continue
		}
		if due := d.Add(silence); due.After(now) {
			p.look.again(due.Sub(now))
		} else if p.hanging == nil || pods[i].Name < p.hanging.Name {
			p.hanging, p.forName = &pods[i], m.waitsForNames()
		}
	}
}

// waitsForNames reports whether a workload makes no new pod before the old one is gone:
// a StatefulSet, and a Job whose user, or whose podFailurePolicy, wants it so.
func (m member) waitsForNames() bool {
	return m.StatefulSet != nil || m.Job != nil && ptr.Deref(m.Job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
}

// stuck is what is said of a gang that waits for a pod which does not go; the zero value
// when there is none. It holds nothing that moves.
func (p *party) stuck(next gang.State) gang.Status {
	pod := p.hanging
	then := "no new pod takes its place before it is gone"
	switch {
	case pod == nil:
		return gang.Status{}
	case p.forName && (next.Phase == gang.Restarting || next.Phase == gang.Pending || next.Phase == gang.Starting):
	case next.Phase == gang.Restarting:
		then = "the gang goes on without it a minute after that"
	default:
		return gang.Status{}
	}
	return gang.Status{Reason: gang.ReasonPodStuck, Message: fmt.Sprintf(
		"%s. Pod %s should have been gone from node %s by %s, and %s. If that machine is off, delete the Node %s, or taint it with %s=nodeshutdown:NoExecute",
		next.Describe(p.lifecycle(), p.roll), pod.Name, pod.Spec.NodeName, pod.DeletionTimestamp.UTC().Format("15:04:05 UTC"), then,
		pod.Spec.NodeName, corev1.TaintNodeOutOfService)}
}

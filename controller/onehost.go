package controller

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
)

// The kubelet reports a pod's end when all of its containers have ended, so what the
// one that watches left is there by then; more looks are for other kubelets.
const (
	maxLooks     = 3
	betweenLooks = time.Second
)

// idleHosts says that the launcher of a gang that is done reached none of its hosts,
// or one of many: all ranks then ran in one pod, which the program itself may not have
// noticed. It is looked at once, just before the end is told; a launcher whose pod is
// gone already is not spoken of. False asks to wait a moment with that end.
func (r *Reconciler) idleHosts(ctx context.Context, p *party) (gang.Status, bool) {
	lead := p.lead()
	if lead == nil || !lead.Gang.Framework.Launches || p.state().Phase == gang.Succeeded {
		return p.told(gang.ReasonRanksOnOneHost), true
	}
	hosts := ssh.Others(lead.Gang)
	job := p.launcher()
	if hosts == 0 || job == nil {
		return gang.Status{}, true
	}
	message, ended, err := r.lastWord(ctx, lead.Gang, job)
	if err != nil {
		// An end that is told without this is better than one that is not told.
		log.FromContext(ctx).Error(err, "Looking which hosts the launcher reached")
		return gang.Status{}, true
	}
	if kept := r.memory.of(p.look.request); !ended && kept.looks < maxLooks {
		kept.looks++
		p.look.again(betweenLooks)
		return gang.Status{}, false
	}
	reached, ok := ssh.Reached(message)
	if !ok || reached > 1 || int32(reached) == hosts {
		return gang.Status{}, true
	}
	return gang.Status{Reason: gang.ReasonRanksOnOneHost, Message: idle(int32(reached), hosts)}, true
}

func idle(reached, hosts int32) string {
	which := "none"
	if reached > 0 {
		which = fmt.Sprint(reached)
	}
	return fmt.Sprintf("The gang is done, but its launcher reached %s of the %d hosts of its hostfile, and the others did nothing: "+
		"Open MPI from 5.0.6 on reads PRTE_MCA_prte_default_hostfile and no longer OMPI_MCA_orte_default_hostfile, "+
		"and other launchers want the file as an option; see docs/frameworks/mpi.md", which, hosts)
}

// told returns what was said to a member in the phase that the gang is in, if it has
// the reason; the zero value if nothing was.
func (p *party) told(reason gang.Reason) gang.Status {
	for _, m := range p.members {
		if s := gang.StatusOf(m.Workload); s.Reason == reason && s.Phase == p.state().Phase {
			return gang.Status{Reason: s.Reason, Message: s.Message}
		}
	}
	return gang.Status{}
}

// launcher is the Job that has launched; nil when there is none.
func (p *party) launcher() *batchv1.Job {
	for _, m := range p.members {
		if m.result != nil && m.result.Gang.Role == gang.RoleLauncher {
			return m.Job
		}
	}
	return nil
}

// lastWord reads what the container that watches left in the launcher's pod. It is
// false while that may still come; a pod that is gone, or has no such container, has
// nothing to say.
func (r *Reconciler) lastWord(ctx context.Context, g gang.Gang, job *batchv1.Job) (string, bool, error) {
	var pods corev1.PodList
	err := r.Live.List(ctx, &pods, client.InNamespace(g.Namespace), client.Limit(1),
		client.MatchingLabels{gang.LabelGang: g.Name, gang.LabelRole: gang.RoleLauncher, batchv1.ControllerUidLabel: string(job.UID)},
		client.MatchingFields{"status.phase": string(corev1.PodSucceeded)}) // and none of its failed attempts
	if err != nil {
		return "", true, fmt.Errorf("listing the pods of %s: %w", job.Name, err)
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.InitContainerStatuses {
			if c.Name == ssh.Watch && c.State.Terminated == nil {
				return "", false, nil
			}
			if c.Name == ssh.Watch {
				return c.State.Terminated.Message, true, nil
			}
		}
	}
	return "", true, nil
}

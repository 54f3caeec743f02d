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
	"rollcall.training/internal/lifecycle"
)

// The kubelet reports a pod as succeeded when all of its containers have terminated, so the report of
// the host monitor is usually complete. Other kubelets may need more reads.
const (
	maxHostReportReads     = 3
	hostReportReadInterval = time.Second
)

// checkWorkersReached returns the reason WorkersNotReached if the launcher of a gang that succeeded
// connected to none of its workers, or to only one of several. All ranks then ran in one pod, which
// the program may not have detected. It returns the zero value if the launcher connected to more
// workers, or if its report is not available. It returns false if the report is not complete yet and
// the gang must not be written.
//
// The report is read once, before the phase Succeeded is written.
func (r *Reconciler) checkWorkersReached(ctx context.Context, g *observedGang) (lifecycle.Status, bool) {
	first := g.firstResult()
	if first == nil || !first.Gang.Framework.HasLauncher || g.lastState().Phase == lifecycle.Succeeded {
		return g.lastStatusWithReason(gang.ReasonWorkersNotReached), true
	}
	hosts := ssh.MinWorkerHosts(first.Gang)
	job := g.launcherJob()
	if hosts == 0 || job == nil {
		return lifecycle.Status{}, true
	}
	report, complete, err := r.readHostReport(ctx, first.Gang, job)
	if err != nil {
		// The phase is more important than the report.
		log.FromContext(ctx).Error(err, "Failed to read which workers the launcher reached")
		return lifecycle.Status{}, true
	}
	if s := r.sessions.forRequest(g.pass.request); !complete && s.hostReportReads < maxHostReportReads {
		s.hostReportReads++
		g.pass.requeueAfter(hostReportReadInterval)
		return lifecycle.Status{}, false
	}
	reached, ok := ssh.ParseReachedHosts(report)
	if !ok || reached > 1 || int32(reached) == hosts {
		return lifecycle.Status{}, true
	}
	message := workersNotReachedMessage(int32(reached), hosts)
	return lifecycle.Status{Reason: gang.ReasonWorkersNotReached, Message: message}, true
}

func workersNotReachedMessage(reached, hosts int32) string {
	return fmt.Sprintf("The gang succeeded, but its launcher reached only %d of %d workers, "+
		"so the other workers were idle. "+
		"Open MPI from 5.0.6 reads PRTE_MCA_prte_default_hostfile instead of OMPI_MCA_orte_default_hostfile, "+
		"and other launchers need the hostfile as an option; see docs/reference/frameworks/mpi.md", reached, hosts)
}

// lastStatusWithReason returns reason and message of a member that has the reason in the last phase of
// the gang; the zero value if no member has.
func (g *observedGang) lastStatusWithReason(reason gang.Reason) lifecycle.Status {
	for _, m := range g.members {
		if s := m.lastStatus(); s.Reason == reason && s.Phase == g.lastState().Phase {
			return lifecycle.Status{Reason: s.Reason, Message: s.Message}
		}
	}
	return lifecycle.Status{}
}

// launcherJob returns the Job of the launcher; nil if there is none.
func (g *observedGang) launcherJob() *batchv1.Job {
	for _, m := range g.members {
		if m.Result != nil && m.Result.Gang.Role == gang.RoleLauncher {
			return m.Job
		}
	}
	return nil
}

// readHostReport returns the termination message of the host monitor in the launcher's pod. complete
// is false while the monitor is running. The report is empty and complete if the pod was deleted or
// has no host monitor.
func (r *Reconciler) readHostReport(
	ctx context.Context, g gang.Gang, job *batchv1.Job,
) (report string, complete bool, err error) {
	var pods corev1.PodList
	err = r.APIReader.List(ctx, &pods, client.InNamespace(g.Namespace), client.Limit(1),
		client.MatchingLabels{
			gang.LabelGang: g.Name, gang.LabelRole: gang.RoleLauncher, batchv1.ControllerUidLabel: string(job.UID),
		},
		client.MatchingFields{"status.phase": string(corev1.PodSucceeded)}) // excludes pods of failed attempts
	if err != nil {
		return "", true, fmt.Errorf("listing the pods of %s: %w", job.Name, err)
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.InitContainerStatuses {
			switch {
			case c.Name != ssh.MonitorContainerName:
			case c.State.Terminated == nil:
				return "", false, nil
			default:
				return c.State.Terminated.Message, true, nil
			}
		}
	}
	return "", true, nil
}

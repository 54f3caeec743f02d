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
	"rollcall.training/internal/lifecycle"
)

// The kubelet reports a pod as succeeded when all of its containers have terminated, so the report of
// the host monitor is usually complete. Other kubelets may need more reads.
const (
	maxHostReportReads     = 3
	hostReportReadInterval = time.Second
)

// checkWorkersReached returns the reason WorkersNotReached if the framework explains that the launcher of a gang
// that succeeded did not use its workers, which the program may not have detected. It returns the zero value if
// there is no problem, or if the report of the launcher's pod is not available. It returns false if the report
// is not complete yet and the gang must not be written.
//
// The report is read once, before the phase Succeeded is written.
func (r *Reconciler) checkWorkersReached(ctx context.Context, g *observedGang) (lifecycle.Status, bool) {
	first := g.firstResult()
	if first == nil || !first.Gang.Framework.HasLauncher || g.lastState().Phase == lifecycle.Succeeded {
		return g.lastStatusWithReason(gang.ReasonWorkersNotReached), true
	}
	job := g.launcherJob()
	if job == nil || !first.Gang.HasSSHHosts() {
		return lifecycle.Status{}, true
	}
	pod, err := r.findSucceededLauncher(ctx, first.Gang, job)
	if err != nil {
		// The phase is more important than the report.
		log.FromContext(ctx).Error(err, "Failed to read which workers the launcher reached")
	}
	if pod == nil {
		return lifecycle.Status{}, true
	}
	problem, complete := r.Engine.DiagnoseLauncher(first.Gang, pod)
	if s := g.pass.session; !complete && s.hostReportReads < maxHostReportReads {
		s.hostReportReads++
		g.pass.requeueAfter(hostReportReadInterval)
		return lifecycle.Status{}, false
	}
	if problem == "" {
		return lifecycle.Status{}, true
	}
	return lifecycle.Status{Reason: gang.ReasonWorkersNotReached, Message: problem}, true
}

// lastStatusWithReason returns reason and message of a member that has the reason in the last phase of
// the gang; the zero value if no member has.
func (g *observedGang) lastStatusWithReason(reason gang.Reason) lifecycle.Status {
	for _, m := range g.Members {
		if s := m.lastStatus(); s.Reason == reason && s.Phase == g.lastState().Phase {
			return lifecycle.Status{Reason: s.Reason, Message: s.Message}
		}
	}
	return lifecycle.Status{}
}

// launcherJob returns the Job of the launcher; nil if there is none.
func (g *observedGang) launcherJob() *batchv1.Job {
	for _, m := range g.Members {
		if m.Result != nil && m.Result.Gang.Role == gang.RoleLauncher {
			return m.Job
		}
	}
	return nil
}

// findSucceededLauncher returns the launcher's pod that succeeded; nil if it was deleted.
func (r *Reconciler) findSucceededLauncher(ctx context.Context, g gang.Gang, job *batchv1.Job) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := r.APIReader.List(ctx, &pods, client.InNamespace(g.Namespace), client.Limit(1),
		client.MatchingLabels{
			gang.LabelGang: g.Name, gang.LabelRole: gang.RoleLauncher, batchv1.ControllerUidLabel: string(job.UID),
		},
		client.MatchingFields{"status.phase": string(corev1.PodSucceeded)}) // excludes pods of failed attempts
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", job.Name, err)
	}
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[0], nil
}

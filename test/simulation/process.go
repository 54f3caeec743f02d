package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/testing/podtest"
)

const trainer = "trainer"

// process is the training container of a pod, as it is and not as the API shows it.
type process struct {
	node  *node
	pod   *corev1.Pod
	alive bool
	// startTime is when the container started last.
	startTime time.Time
	// exitCode and exitTime describe the last exit; a container that runs again has restarts.
	exitCode int32
	exitTime time.Time
	exited   bool
	restarts int32
	// lastTermination is the exit before the last start; nil for the first start.
	lastTermination *corev1.ContainerStateTerminated
	// stallReport is what the probe of a stalled rank adds to the log, which is the message of the next exit.
	stallReport, exitMessage string
	// terminating is true after the kubelet sent SIGTERM.
	terminating bool
	// byKubelet is true if the kubelet terminates the pod, and nobody has deleted it. isTornDown is true when it is done.
	byKubelet, isTornDown bool
	// isSick is true while a device of the container is unhealthy. The next pod gets another device.
	isSick bool
	// isLost is true if the node restarted, so that nobody knows the last exit code.
	isLost bool
	// removed is true after the kubelet forgot the pod.
	removed bool
}

// start starts the container, also after an exit.
func (p *process) start() {
	if p.alive || p.removed || p.terminating || p.node.lost {
		return
	}
	if p.exited {
		p.lastTermination = p.terminated()
	}
	p.alive, p.startTime = true, p.node.now
	p.node.programs.started(p)
	p.report()
}

// exit ends the program. The kubelet restarts the container if the restart policy or a rule says so.
func (p *process) exit(code int32) {
	if !p.alive {
		return
	}
	p.alive, p.exited, p.isLost, p.exitCode = false, true, false, code
	p.exitTime, p.exitMessage, p.stallReport = p.node.time().Time, p.stallReport, ""
	p.node.record("pod "+p.pod.Name, "exits with code %d (attempt %s)", code, attemptOf(p.pod))
	p.node.programs.exited(p)
	if !p.terminating && p.isRestarted() {
		delay := min(time.Second<<min(p.restarts*2, 8), 5*time.Minute)
		p.restarts++
		restarts := p.restarts
		p.node.at(p.node.now.Add(delay), func() {
			if p.restarts == restarts && p.isRestarted() { // a node that returned may have started it earlier
				p.start()
			}
		})
	}
	p.report()
}

// isRestarted reports whether the kubelet runs the container again in the same pod.
func (p *process) isRestarted() bool {
	spec := &p.pod.Spec
	switch spec.RestartPolicy {
	case corev1.RestartPolicyOnFailure:
		return p.exitCode != 0
	case corev1.RestartPolicyNever:
		c := spec.Containers[slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == trainer })]
		return p.exitCode != 0 && len(c.RestartPolicyRules) > 0
	default:
		return true
	}
}

// terminate sends SIGTERM, and SIGKILL after the grace period. It calls finish after the container has exited.
func (p *process) terminate(grace time.Duration, finish func()) {
	p.terminating = true
	if !p.alive {
		p.report()
		p.node.after("kubelet/"+p.node.name+"/status", finish)
		return
	}
	delay, code := p.node.programs.onSIGTERM(p)
	p.node.at(p.node.now.Add(min(delay, grace)), func() {
		if delay > grace {
			code = 137
		}
		p.exit(code)
		p.node.after("kubelet/"+p.node.name+"/status", finish)
	})
}

// terminateByKubelet terminates the pod as a kubelet does that evicts the pod or shuts down. The kubelet reports the
// exit only when all containers have ended and the sandbox is gone. The condition has that time (pkg/kubelet/status,
// mergePodStatus).
func (p *process) terminateByKubelet(sandbox time.Duration) {
	p.byKubelet = true
	p.terminate(30*time.Second, func() { p.node.at(p.node.now.Add(sandbox), p.tearDown) })
}

func (p *process) tearDown() {
	if p.node.lost {
		return
	}
	p.isTornDown = true
	p.writeStatus()
	if o := p.node.api.find(podKind, p.pod.Name); o != nil && o.GetDeletionTimestamp() != nil {
		p.confirmDeletion()
	}
}

// report writes the status of the pod after a delay. A kubelet that is late writes only the newest status.
func (p *process) report() {
	p.node.after("kubelet/"+p.node.name+"/status", p.writeStatus)
}

func (p *process) writeStatus() {
	if p.node.lost || p.byKubelet && !p.isTornDown {
		return
	}
	o := p.node.api.find(podKind, p.pod.Name)
	if o == nil || o.GetUID() != p.pod.UID {
		return
	}
	pod := clone(o.(*corev1.Pod))
	if isTerminal(pod) {
		return
	}
	pod.Status.Phase = p.phase()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{p.containerStatus()}
	ready := corev1.ConditionFalse
	if p.alive {
		ready = corev1.ConditionTrue
	}
	reason := ""
	if !p.alive {
		reason = "ContainersNotReady"
	}
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setPodCondition(pod, corev1.PodCondition{Type: t, Status: ready, Reason: reason, LastTransitionTime: p.node.time()})
	}
	if p.byKubelet {
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
			LastTransitionTime: p.node.time(),
		})
	}
	pod.ResourceVersion = ""
	_, _ = p.node.api.update(pod, "status") // the next status contains the same
}

// phase returns the phase of the pod, which is final only if no container runs again. A pod that was deleted before
// its containers started fails (kubernetes pkg/kubelet/status, TerminatePod).
func (p *process) phase() corev1.PodPhase {
	switch {
	case (p.terminating || p.removed) && !p.exited && !p.alive:
		return corev1.PodFailed
	case p.alive || !p.exited || !p.terminating && p.isRestarted():
		return corev1.PodRunning
	case p.exitCode == 0:
		return corev1.PodSucceeded
	default:
		return corev1.PodFailed
	}
}

func (p *process) containerStatus() corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: trainer, RestartCount: p.restarts, Ready: p.alive}
	if p.isSick {
		podtest.SetDeviceHealth(&out, corev1.ResourceHealthStatusUnhealthy)
	}
	out.LastTerminationState.Terminated = p.lastTermination
	switch {
	case p.alive:
		out.State.Running = &corev1.ContainerStateRunning{}
	case p.exited:
		out.State.Terminated = p.terminated()
	default:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return out
}

// terminated returns the state of the container after its last exit.
func (p *process) terminated() *corev1.ContainerStateTerminated {
	out := &corev1.ContainerStateTerminated{
		ExitCode: p.exitCode, Reason: "Error", FinishedAt: metav1.NewTime(p.exitTime), Message: p.exitMessage,
	}
	switch {
	case p.isLost:
		out.Reason = "Unknown"
	case p.exitCode == 0:
		out.Reason = "Completed"
	}
	return out
}

// confirmDeletion deletes the pod without a grace period after its containers have exited.
func (p *process) confirmDeletion() {
	if p.node.lost {
		return
	}
	p.writeStatus()
	p.removed = true
	_ = p.node.api.delete(podKind, p.pod.Name, deleteOptions{uid: p.pod.UID, force: true}) // gone already
}

// kill ends a process whose pod nobody knows any more.
func (p *process) kill() {
	if p.alive {
		p.terminating, p.alive = true, false
		p.node.programs.exited(p)
	}
	p.removed = true
}

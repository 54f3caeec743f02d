package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node is a node with its kubelet. The processes of pods on a lost node run on, but nobody hears of them.
type node struct {
	*world
	api  *api
	name string
	// skew is by how much the clock of the node is ahead.
	skew time.Duration
	lost bool
	// broken is true while all programs on the node fail some time after they started.
	broken bool
	// lostTime is when the node was lost last.
	lostTime  time.Time
	processes map[types.UID]*process
	pods      *watch
	programs  *programs
}

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

const trainer = "trainer"

func newNode(a *api, name string, skew time.Duration, p *programs) *node {
	n := &node{world: a.w, api: a, name: name, skew: skew, processes: map[types.UID]*process{}, programs: p}
	n.pods = a.watch(podKind, "kubelet/"+name+"/pods", nil, n.observePod)
	return n
}

// time returns the time of the node, to the second.
func (n *node) time() metav1.Time { return metav1.NewTime(n.now.Add(n.skew).Truncate(time.Second)) }

// observePod starts the containers of a new pod and terminates those of a deleted pod.
func (n *node) observePod(_, after client.Object) {
	pod, ok := after.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != n.name || n.lost {
		return
	}
	p := n.processes[pod.UID]
	switch {
	case p == nil && pod.DeletionTimestamp == nil && !isTerminal(pod):
		p = &process{node: n, pod: pod}
		n.processes[pod.UID] = p
		n.after("kubelet/"+n.name+"/start", p.start)
	case p == nil && pod.DeletionTimestamp != nil:
		p = &process{node: n, pod: pod, removed: true}
		n.processes[pod.UID] = p
		n.after("kubelet/"+n.name+"/status", p.confirmDeletion)
	case p != nil && pod.DeletionTimestamp != nil && (!p.terminating || p.isTornDown):
		p.terminate(time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 30))*time.Second, p.confirmDeletion)
	}
}

// start starts the container, also after an exit.
func (p *process) start() {
	if p.alive || p.removed || p.terminating || p.node.lost {
		return
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
		p.node.at(p.node.now.Add(delay), p.start)
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
		out.AllocatedResourcesStatus = []corev1.ResourceStatus{{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{
			{ResourceID: "gpu-0", Health: corev1.ResourceHealthStatusUnhealthy},
		}}}
	}
	terminated := &corev1.ContainerStateTerminated{
		ExitCode: p.exitCode, Reason: "Error", FinishedAt: metav1.NewTime(p.exitTime), Message: p.exitMessage,
	}
	switch {
	case p.isLost:
		terminated.Reason = "Unknown"
	case p.exitCode == 0:
		terminated.Reason = "Completed"
	}
	switch {
	case p.alive:
		out.State.Running = &corev1.ContainerStateRunning{}
		if p.exited {
			out.LastTerminationState.Terminated = terminated
		}
	case p.exited:
		out.State.Terminated = terminated
	default:
		out.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
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

func setPodCondition(pod *corev1.Pod, condition corev1.PodCondition) {
	for i, c := range pod.Status.Conditions {
		if c.Type == condition.Type {
			if c.Status == condition.Status {
				condition.LastTransitionTime = c.LastTransitionTime
			}
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// lose disconnects the node. After 50 seconds its pods are not ready, and after the toleration they are
// evicted. They stay until the node returns or is removed.
func (n *node) lose() {
	n.lost, n.lostTime = true, n.now
	n.record("node "+n.name, "is lost")
	n.at(n.now.Add(50*time.Second), func() {
		n.forPods(func(pod *corev1.Pod) {
			setPodCondition(pod, corev1.PodCondition{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: n.api.time(),
			})
		})
	})
	n.at(n.now.Add(80*time.Second), func() {
		n.forPods(func(pod *corev1.Pod) { evict(n.api, pod, "DeletionByTaintManager") })
	})
}

// restart switches the node off for some time. Its containers end at once. When it is back, the container runtime
// reports that they have ended now, with an unknown code (containerd internal/cri/server, loadContainer).
func (n *node) restart(off time.Duration) {
	n.lost, n.lostTime = true, n.now
	n.record("node "+n.name, "restarts")
	var lost []*process
	for _, p := range n.sortedProcesses() {
		if p.alive {
			p.exit(255)
			p.isLost = true
			lost = append(lost, p)
		}
	}
	start := n.now
	n.at(n.now.Add(off), func() {
		if !n.lost || n.lostTime != start {
			return
		}
		for _, p := range lost {
			p.exitTime = n.time().Time
		}
		n.recover()
	})
}

// forPods calls a function with the pods on a node that is still lost, and writes the status that it changed.
func (n *node) forPods(change func(*corev1.Pod)) {
	if !n.lost {
		return
	}
	for _, o := range n.api.list(podKind) {
		pod := clone(o.(*corev1.Pod))
		if pod.Spec.NodeName != n.name || isTerminal(pod) {
			continue
		}
		change(pod)
		_, _ = n.api.update(pod, "status") // a conflict means that it is gone
	}
}

// evict adds the condition DisruptionTarget and deletes a pod.
func evict(a *api, pod *corev1.Pod, reason string) {
	o := a.find(podKind, pod.Name)
	if o == nil || o.GetUID() != pod.UID {
		return
	}
	marked := clone(o.(*corev1.Pod))
	setPodCondition(marked, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: a.time(),
	})
	if _, err := a.update(marked, "status"); err == nil {
		_ = a.delete(podKind, pod.Name, deleteOptions{uid: pod.UID}) // it exists
	}
}

// recover reconnects the node. Its kubelet sees all pods again.
func (n *node) recover() {
	n.lost = false
	n.record("node "+n.name, "returns")
	for _, o := range n.api.list(podKind) {
		n.observePod(nil, o)
	}
	for _, p := range n.sortedProcesses() {
		if o := n.api.find(podKind, p.pod.Name); o == nil || o.GetUID() != p.pod.UID {
			p.kill()
		} else if p.byKubelet && !p.alive {
			n.after("kubelet/"+n.name+"/status", p.tearDown)
		} else if p.terminating && !p.alive {
			n.after("kubelet/"+n.name+"/status", p.confirmDeletion)
		} else {
			if !p.exited || p.isRestarted() { // the node was lost before the container started
				p.start()
			}
			p.report()
		}
	}
}

// remove deletes the node for good. The garbage collector of pods then deletes its pods.
func (n *node) remove() {
	n.record("node "+n.name, "is removed")
	for _, p := range n.sortedProcesses() {
		p.kill()
	}
	n.at(n.now.Add(20*time.Second), func() {
		for _, o := range n.api.list(podKind) {
			pod := clone(o.(*corev1.Pod))
			if pod.Spec.NodeName != n.name {
				continue
			}
			if !isTerminal(pod) {
				pod.Status.Phase = corev1.PodFailed
				setPodCondition(pod, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
					LastTransitionTime: n.api.time(),
				})
				_, _ = n.api.update(pod, "status") // it exists
			}
			_ = n.api.delete(podKind, pod.Name, deleteOptions{uid: pod.UID, force: true}) // it exists
		}
	})
}

// sortedProcesses returns the processes of a node in the order of their pods' names.
func (n *node) sortedProcesses() []*process {
	out := slices.Collect(maps.Values(n.processes))
	slices.SortFunc(out, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	return out
}

// kill ends a process whose pod nobody knows any more.
func (p *process) kill() {
	if p.alive {
		p.terminating, p.alive = true, false
		p.node.programs.exited(p)
	}
	p.removed = true
}

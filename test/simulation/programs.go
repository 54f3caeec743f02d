package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
)

// behavior is what the training programs of a gang do.
type behavior struct {
	// SIGTERMExitCode is the exit code after SIGTERM; -1 for a program that ignores the signal.
	SIGTERMExitCode int32
	// SIGTERMDelay is how long a program saves its state after SIGTERM.
	SIGTERMDelay time.Duration
	// AbortsWithoutPeers is true if the program exits with code 1 when it loses a peer, and false if it hangs.
	AbortsWithoutPeers bool
	// PeerTimeout is how long a program waits for peers on a lost node before it exits with code 1; 0 indefinitely.
	PeerTimeout time.Duration
	// FailsWhenRunAgain is true if a program that has finished its work exits with code 1 when its kubelet runs it again.
	FailsWhenRunAgain bool
	// AbortsAfterMaster is true if the programs of workers exit with code 1 when their master has finished its work.
	AbortsAfterMaster bool
}

// programs are the running programs of all pods, and what really happened to them.
type programs struct {
	*world
	behavior behavior
	oracle   *oracle
	live     []*process
	ending   bool
	// ended contains when objects were deleted, and when Jobs failed.
	ended map[types.UID]time.Time
}

func attemptOf(pod *corev1.Pod) string { return pod.Labels[gang.LabelAttempt] }

func gangOf(pod *corev1.Pod) string { return pod.Labels[gang.LabelGang] }

// started is called when the container of a pod starts.
func (p *programs) started(started *process) {
	p.live = append(p.live, started)
	p.oracle.checkStart(started, p.live)
	p.failOnBrokenNode(started)
	switch {
	case p.behavior.FailsWhenRunAgain && started.restarts > 0 && p.hasFinished(started):
		restarts := started.restarts
		p.at(p.now.Add(3*time.Second), func() {
			if started.alive && !started.terminating && started.restarts == restarts {
				started.exit(1)
			}
		})
	case p.ending:
		p.at(p.now.Add(time.Second), func() { started.exit(0) })
	}
}

// hasFinished reports whether the rank of a process has finished its work in its attempt.
func (p *programs) hasFinished(of *process) bool {
	return p.oracle.succeeded[of.pod.OwnerReferences[0].Name].Has(gang.PodIndex(of.pod))
}

// brokenNodeDelay is how long a program runs on a broken node.
const brokenNodeDelay = 15 * time.Second

// failOnBrokenNode makes a program of the gang fail if its node is broken.
func (p *programs) failOnBrokenNode(started *process) {
	if !started.node.broken || !started.alive || !p.oracle.isOfGang(started.pod) {
		return
	}
	restarts := started.restarts
	p.at(p.now.Add(brokenNodeDelay), func() {
		if started.node.broken && started.alive && !started.terminating && started.restarts == restarts {
			p.oracle.failures++
			started.exit(7)
		}
	})
}

// exited is called when a program has ended. Its peers lose it, unless it has finished its work, now or before the
// kubelet started it again.
func (p *programs) exited(ended *process) {
	p.live = slices.DeleteFunc(p.live, func(other *process) bool { return other == ended })
	isSuccess := ended.exitCode == 0 && !ended.terminating
	if isSuccess {
		if ended.pod.UID == p.oracle.lostPod {
			p.oracle.failureTime = time.Time{} // the rank finished its work before its kubelet terminated it
		}
		p.oracle.recordSuccess(ended)
		p.abortAfterMaster(ended)
		return
	}
	hasFinished := p.hasFinished(ended)
	isFailure := !ended.terminating && !hasFinished && !p.isOutlived(ended) && !p.oracle.isOutdated(ended.pod) &&
		!p.oracle.isResumptionHidden()
	if isFailure && p.oracle.isOfGang(ended.pod) && p.oracle.hasRank(ended.pod) {
		p.oracle.failureTime = p.now
	}
	if p.behavior.AbortsWithoutPeers && gangOf(ended.pod) == gangName && !hasFinished {
		p.abortPeers(ended)
	}
}

// abortAfterMaster lets the workers of a master that has finished its work exit with code 1.
func (p *programs) abortAfterMaster(ended *process) {
	isMaster := p.oracle.isOfGang(ended.pod) && ended.pod.Labels[gang.LabelRole] == "master"
	if !p.behavior.AbortsAfterMaster || !isMaster || !p.abortPeers(ended) {
		return // the success makes no worker fail
	}
	p.oracle.failures++ // the gang may restart for a moment, before the success is reported
	// A failure can be reported late, or a policy denied what follows from it.
	mayHaveFailed := p.now.Sub(p.oracle.failureTime) < 10*time.Second ||
		!p.oracle.failureTime.IsZero() && len(p.oracle.forbidden) > 0
	if !ended.node.lost && !mayHaveFailed {
		p.oracle.successTime = p.now
	}
}

// abortPeers lets the peers of a program that has ended exit with code 1, and reports whether there are any.
func (p *programs) abortPeers(ended *process) (hasPeers bool) {
	for _, peer := range p.live {
		if !p.isPeer(ended, peer) {
			continue
		}
		hasPeers = true
		restarts := peer.restarts
		p.after("programs/abort", func() {
			if peer.alive && peer.restarts == restarts {
				peer.exit(1)
			}
		})
	}
	return hasPeers
}

// timeOut lets the peers of the programs on a lost node exit after their timeout, unless the node returns before. They
// seem to have failed until Kubernetes finds the node lost.
func (p *programs) timeOut(n *node) {
	if p.behavior.PeerTimeout == 0 {
		return
	}
	lostTime, isFirst := n.lostTime, true
	for _, peer := range slices.Clone(p.live) {
		isWaiting := func(lost *process) bool { return lost.node == n && p.isPeer(lost, peer) }
		if peer.node.lost || !slices.ContainsFunc(p.live, isWaiting) {
			continue
		}
		restarts := peer.restarts
		p.at(p.now.Add(p.behavior.PeerTimeout), func() {
			if n.lost && n.lostTime.Equal(lostTime) && peer.alive && !peer.terminating && peer.restarts == restarts {
				if isFirst {
					p.oracle.failures++
				}
				isFirst, p.oracle.peersTimedOut = false, true
				peer.exit(1)
			}
		})
	}
}

// stall lets the probes of a process and of its peers find that they make no progress. Process 1 prints its stack, and
// ends after the grace period of the probe.
func (p *programs) stall(stalled *process) {
	for _, live := range slices.Clone(p.live) {
		position := "all_reduce"
		if live == stalled {
			position = "load_batch"
		} else if !p.isPeer(stalled, live) {
			continue
		}
		now := live.node.time().UTC().Format(time.RFC3339)
		live.stallReport = fmt.Sprintf("rollcall: stalled: /progress was not written since %s, found at %s\n"+
			"  File \"train.py\", line 1 in %s\n", now, now, position)
		p.at(p.now.Add(5*time.Second), func() {
			p.after("kubelet/"+live.node.name+"/exit", func() { live.exit(137) })
		})
	}
}

// isPeer reports whether a process loses a peer when another process ends: both belong to the same attempt of the
// gang, and it started before the workload of the other was deleted or failed. The pod that replaces another one is not
// its peer.
func (p *programs) isPeer(ended, peer *process) bool {
	endTime, hasEnded := p.ended[ended.pod.OwnerReferences[0].UID]
	isSameRank := controllerOf(ended.pod) == controllerOf(peer.pod) && gang.PodIndex(ended.pod) == gang.PodIndex(peer.pod)
	return p.oracle.isOfGang(ended.pod) && p.oracle.isOfGang(peer.pod) && !areOfDifferentAttempts(ended.pod, peer.pod) &&
		!isSameRank && (!hasEnded || peer.startTime.Before(endTime))
}

// onSIGTERM returns when and with which code a program exits after SIGTERM.
func (p *programs) onSIGTERM(*process) (delay time.Duration, code int32) {
	if p.behavior.SIGTERMExitCode < 0 {
		return time.Hour, 137
	}
	return p.behavior.SIGTERMDelay, p.behavior.SIGTERMExitCode
}

// endAll lets all programs finish their work, also those that start later.
func (p *programs) endAll() {
	p.ending = true
	for _, live := range slices.Clone(p.live) {
		if gangOf(live.pod) == gangName {
			p.after("programs/end", func() { live.exit(0) })
		}
	}
}

// isOutlived reports whether a program of a later attempt runs, as it can next to one on a lost node.
func (p *programs) isOutlived(ended *process) bool {
	return slices.ContainsFunc(p.live, func(other *process) bool {
		return p.oracle.isOfGang(other.pod) && areOfDifferentAttempts(ended.pod, other.pod) &&
			other.startTime.After(ended.startTime)
	})
}

// find returns the running program of a rank of a workload, of the last attempt if it runs twice; nil if there is none.
func (p *programs) find(workload string, index int32) *process {
	for _, live := range slices.Backward(p.live) {
		if live.pod.OwnerReferences[0].Name == workload && gang.PodIndex(live.pod) == index && !live.terminating {
			return live
		}
	}
	return nil
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/internal/lifecycle"
)

// injectIncident waits for the attempt that an incident hits, and injects the incident.
func (n *runningLife) injectIncident(ctx context.Context, i incident) error {
	for end := time.Now().Add(stepTimeout); time.Now().Before(end); {
		if _, err := n.waitForRanks(ctx, i, stepTimeout); err != nil { // other lives can fail nodes meanwhile
			return err
		}
		hit, err := n.tryIncident(ctx, i)
		if err != nil {
			return err
		}
		if !hit {
			continue // the pods were replaced, which the recorder may not have observed yet
		}
		if !i.isFailure() && n.model.anyJobComplete() {
			return n.waitForCompleteJob(ctx)
		}
		return nil
	}
	return errors.New("the ranks were replaced again and again")
}

// tryIncident injects an incident and waits for its effect. It returns false if no pod was hit.
func (n *runningLife) tryIncident(ctx context.Context, i incident) (hit bool, err error) {
	hitsOthers := n.faults.shared && i.isNodeFault() && i.isFailure()
	if hitsOthers {
		n.incidents.Lock()
		defer n.incidents.Unlock()
	} else {
		n.incidents.RLock()
		defer n.incidents.RUnlock()
	}
	if n.mayCompleteJob(i) {
		n.leader.RLock()
		defer n.leader.RUnlock()
	}
	pods, err := n.waitForRanks(ctx, i, lockedTimeout)
	if err != nil {
		return false, ctx.Err() // a fault of another life has ended the attempt
	}
	undo := func(context.Context) error { return nil }
	if i.isNodeFault() {
		pod := pods[i.Ranks[0]]
		if hitsOthers {
			n.recorder.startFault(pod.Spec.NodeName, i.Cause != nodeDrain)
			defer n.recorder.endFault()
			n.ownFaults++
		}
		hit = true
		undo, err = n.nodes.fail(ctx, i.Cause, pod)
	} else {
		hit, err = n.hitRanks(ctx, i, pods)
	}
	if !hit || err != nil {
		return hit, err
	}
	n.model.apply(i)
	err = n.waitForEffect(ctx, i, pods)
	time.Sleep(i.Duration)
	return true, errors.Join(err, undo(ctx))
}

// mayCompleteJob reports whether an incident deletes all pods of a Job that have not succeeded. Their programs exit
// with code 0.
func (n *runningLife) mayCompleteJob(i incident) bool {
	if n.Kind == oneStatefulSet || !slices.Contains([]cause{podDeletion, podEviction, nodeDrain}, i.Cause) {
		return false
	}
	after := *n.model
	after.succeeded = maps.Clone(n.model.succeeded)
	for _, rank := range i.Ranks {
		after.succeeded[rank] = true
	}
	return i.Cause == nodeDrain || after.anyJobComplete() || after.allSucceeded(0, n.Ranks)
}

// waitForEffect waits until an incident has ended the attempt, or its programs have exited with code 0.
func (n *runningLife) waitForEffect(ctx context.Context, i incident, pods map[int32]corev1.Pod) error {
	return n.recorder.waitFor(ctx, n.namespace, "the effect", stepTimeout, func(h *history) error {
		switch {
		case n.model.finished():
			_, err := n.checkPhase(h, n.model.phase)
			return err
		case i.isFailure():
			_, err := n.checkPhase(h) // in any phase
			return err
		case i.Cause == nodeSlow:
			return nil
		}
		for _, rank := range i.Ranks {
			if !h.hasExited(pods[rank].UID) {
				return fmt.Errorf("rank %d has not exited", rank)
			}
		}
		return nil
	})
}

// waitForRanks waits until the current attempt has the ranks of an incident. Unless the incident is
// early, all ranks that have not succeeded must be ready.
func (n *runningLife) waitForRanks(
	ctx context.Context, i incident, timeout time.Duration,
) (map[int32]corev1.Pod, error) {
	var pods map[int32]corev1.Pod
	var restarts int32
	what := fmt.Sprintf("attempt %d", n.leastRestarts())
	err := n.recorder.waitFor(ctx, n.namespace, what, timeout, func(h *history) error {
		phases := []lifecycle.Phase{lifecycle.Running}
		if i.Early {
			phases = append(phases, lifecycle.Pending, lifecycle.Starting)
		}
		var err error
		if restarts, err = n.checkPhase(h, phases...); err != nil {
			return err
		}
		pods = h.podsByRank(restarts)
		for _, rank := range i.Ranks {
			if pod, ok := pods[rank]; !ok || i.isNodeFault() && pod.Spec.NodeName == "" {
				return fmt.Errorf("rank %d has no pod, or its pod has no node", rank)
			}
		}
		return nil
	})
	if err == nil && restarts > n.leastRestarts() { // a restart includes ranks that have succeeded
		n.extra = restarts - n.model.attempts()
		clear(n.model.succeeded)
	}
	return pods, err
}

// leastRestarts returns the number of restarts that have happened for certain.
func (n *runningLife) leastRestarts() int32 { return n.model.attempts() + n.extra }

// checkPhase returns the number of restarts if all workloads agree about it and have one of the phases, or any phase if
// there is none. Each fault of another life whose node had a pod of the gang can cost one restart.
func (n *runningLife) checkPhase(h *history, phases ...lifecycle.Phase) (int32, error) {
	if want := len(newWorkloads(n.life, corev1.PodSpec{})); len(h.statuses) != want {
		return 0, fmt.Errorf("%d of %d workloads exist", len(h.statuses), want)
	}
	faults := int32(len(h.faults)) - n.ownFaults
	least, most := n.leastRestarts(), n.model.attempts()+faults
	var restarts []int32
	for _, status := range h.statuses {
		done := status.Restarts + status.Disruptions
		isPhase := len(phases) == 0 || slices.Contains(phases, status.Phase)
		if !isPhase || done < least || done > most {
			return 0, fmt.Errorf("the gang is %s after %d restarts, want %v after %d to %d: %s",
				status.Phase, done, phases, least, most, status.Message)
		}
		if status.Restarts > n.model.restarts+faults {
			return 0, fmt.Errorf("a disruption used up a restart: %d restarts and %d disruptions, want at most %d restarts: %s",
				status.Restarts, status.Disruptions, n.model.restarts, status.Message)
		}
		restarts = append(restarts, done)
	}
	if slices.Min(restarts) != slices.Max(restarts) {
		return 0, fmt.Errorf("the workloads have different numbers of restarts: %v", restarts)
	}
	return restarts[0], nil
}

func TestCheckPhase(t *testing.T) {
	fault := map[int]bool{3: true}
	for name, c := range map[string]struct {
		kind              kind
		restarts          []int32 // of each workload
		asFailures        bool    // counts them as failures, and not as disruptions
		model, extra, own int32
		faults            map[int]bool
		isWrong           bool
	}{
		"the restarts are those of the model":        {restarts: []int32{1}, model: 1},
		"the gang has not restarted yet":             {restarts: []int32{0}, model: 1, isWrong: true},
		"a restart has no reason":                    {restarts: []int32{2}, model: 1, isWrong: true},
		"a fault of another life costs a restart":    {restarts: []int32{2}, model: 1, faults: fault},
		"a fault of another life costs two restarts": {restarts: []int32{2}, faults: fault, isWrong: true},
		"a fault of another life is not noticed":     {restarts: []int32{1}, model: 1, faults: fault},
		"a restart is taken back":                    {restarts: []int32{0}, extra: 1, faults: fault, isWrong: true},
		"a fault of this life costs two restarts":    {restarts: []int32{2}, model: 1, own: 1, faults: fault, isWrong: true},
		"a disruption uses up a restart":             {restarts: []int32{1}, asFailures: true, model: 1, isWrong: true},
		"two workloads have different numbers":       {kind: twoJobs, restarts: []int32{0, 1}, faults: fault, isWrong: true},
		"a workload does not exist":                  {kind: twoJobs, restarts: []int32{0}, isWrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(&nodeFault{})
			h.faults = c.faults
			for i, restarts := range c.restarts {
				state := lifecycle.State{Phase: lifecycle.Running, Disruptions: restarts}
				if c.asFailures {
					state.Restarts, state.Disruptions = restarts, 0
				}
				h.statuses[types.UID(strconv.Itoa(i))] = lifecycle.Status{State: state}
			}
			l := life{Kind: c.kind, Ranks: 2}
			n := runningLife{life: l, model: newModel(l), extra: c.extra, ownFaults: c.own}
			n.model.disruptions = c.model
			if _, err := n.checkPhase(h, lifecycle.Running); (err != nil) != c.isWrong {
				t.Errorf("error %v, want one: %t", err, c.isWrong)
			}
		})
	}
}

// hitRanks injects an incident into the pods of its ranks. It returns false if none of the pods exists
// any more. After the first hit, Rollcall may delete the others at any time.
func (n *runningLife) hitRanks(ctx context.Context, i incident, pods map[int32]corev1.Pod) (bool, error) {
	hit := false
	for _, rank := range i.Ranks {
		pod := pods[rank]
		responseLost := false
		err := retry(ctx, func() error {
			err := n.hitPod(ctx, i, pod)
			if isGone(err) && responseLost {
				return nil
			}
			responseLost = responseLost || err != nil && !isAPIStatus(err)
			return err
		})
		switch {
		case err == nil:
			hit = true
		case !isGone(err):
			return hit, err
		}
	}
	return hit, nil
}

func (n *runningLife) hitPod(ctx context.Context, i incident, pod corev1.Pod) error {
	same := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	switch i.Cause {
	case podDeletion:
		return n.client.CoreV1().Pods(n.namespace).Delete(ctx, pod.Name, same)
	case podEviction:
		return n.client.PolicyV1().Evictions(n.namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: n.namespace}, DeleteOptions: &same,
		})
	default:
		return n.nodes.hit(ctx, n.life, pod, i)
	}
}

// waitForCompleteJob waits until the Job whose ranks have all succeeded is complete.
func (n *runningLife) waitForCompleteJob(ctx context.Context) error {
	return n.recorder.waitFor(ctx, n.namespace, "the complete Job", stepTimeout, func(h *history) error {
		for _, w := range h.workloads {
			if lifecycle.Observe(w).Complete {
				return nil
			}
		}
		return errors.New("no Job is complete")
	})
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

const (
	// stepTimeout bounds each step of a life. The longest contains a back-off of 20 s, the loss of a
	// node (1 minute), and an API server and a controller that restart.
	stepTimeout = 5 * time.Minute
	// apiTimeout bounds the retries of one request.
	apiTimeout = 2 * time.Minute
	// stablePeriod is how long a result must not change.
	stablePeriod = 2 * time.Second
)

// nodes are the nodes of a cluster, as far as a life depends on their kind.
type nodes interface {
	// newPodSpec returns the spec of a program that runs until exit.
	newPodSpec(l life, namespace string) corev1.PodSpec
	// prepare creates what the life needs in its namespace.
	prepare(ctx context.Context, l life, namespace string) error
	// exit makes the program of a pod exit with a code. The error is NotFound or Conflict if the pod was
	// deleted.
	exit(ctx context.Context, l life, pod corev1.Pod, code int32) error
	// lose loses the node of a pod.
	lose(ctx context.Context, pod corev1.Pod) error
	// cleanUp deletes what prepare created outside of the namespace.
	cleanUp(ctx context.Context, namespace string) error
}

// runner runs lives in one cluster.
type runner struct {
	client   kubernetes.Interface
	recorder *recorder
	nodes    nodes
}

// runningLife is a life and its namespace.
type runningLife struct {
	*runner
	life
	model     *model
	namespace string
}

// run runs a life from its creation to its deletion, and returns the invariants that it violated.
func (r *runner) run(ctx context.Context, l life) error {
	n := &runningLife{runner: r, life: l, model: newModel(l)}
	if err := n.create(ctx); err != nil {
		return fmt.Errorf("creating the gang: %w", err)
	}
	for _, i := range l.Incidents {
		if err := n.injectIncident(ctx, i); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", i, err), n.violations())
		}
	}
	if err := n.end(ctx); err != nil {
		return errors.Join(err, n.violations())
	}
	return errors.Join(n.delete(ctx), n.violations())
}

// violations returns the invariants that were violated at any time.
func (n *runningLife) violations() error {
	var out error
	n.recorder.read(n.namespace, func(h *history) {
		if len(h.violations) > 0 {
			out = errors.New(strings.Join(h.violations, "; "))
		}
	})
	return out
}

func (n *runningLife) create(ctx context.Context) error {
	var ns *corev1.Namespace
	err := retry(ctx, func() (err error) {
		ns, err = n.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: n.Name + "-"},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	n.namespace = ns.Name
	n.recorder.addLife(n.namespace)
	if err := n.nodes.prepare(ctx, n.life, n.namespace); err != nil {
		return err
	}
	for _, w := range newWorkloads(n.life, n.nodes.newPodSpec(n.life, n.namespace)) {
		err := retry(ctx, func() (err error) {
			if w.Job != nil {
				_, err = n.client.BatchV1().Jobs(n.namespace).Create(ctx, w.Job, metav1.CreateOptions{})
			} else {
				_, err = n.client.AppsV1().StatefulSets(n.namespace).Create(ctx, w.StatefulSet, metav1.CreateOptions{})
			}
			if apierrors.IsAlreadyExists(err) { // the response was lost
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// injectIncident waits for the attempt that an incident hits, and injects the incident.
func (n *runningLife) injectIncident(ctx context.Context, i incident) error {
	for end := time.Now().Add(stepTimeout); time.Now().Before(end); {
		pods, err := n.waitForRanks(ctx, i)
		if err != nil {
			return err
		}
		hit, err := n.hitRanks(ctx, i, pods)
		if err != nil {
			return err
		}
		if !hit {
			continue // the recorder had not observed yet that the pods were replaced
		}
		n.model.apply(i)
		if !i.isFailure() && n.model.anyJobComplete() {
			return n.waitForCompleteJob(ctx)
		}
		return nil
	}
	return errors.New("the ranks were replaced again and again")
}

// waitForRanks waits until the current attempt has the ranks of an incident. Unless the incident is
// early, all ranks that have not succeeded must be ready.
func (n *runningLife) waitForRanks(ctx context.Context, i incident) (map[int32]corev1.Pod, error) {
	var pods map[int32]corev1.Pod
	what := fmt.Sprintf("attempt %d", n.model.attempts())
	return pods, n.recorder.waitFor(ctx, n.namespace, what, stepTimeout, func(h *history) error {
		phases := []lifecycle.Phase{lifecycle.Running}
		if i.Early {
			phases = append(phases, lifecycle.Pending, lifecycle.Starting)
		}
		if err := n.checkPhase(h, n.model.attempts(), phases...); err != nil {
			return err
		}
		pods = h.podsByRank(n.model.attempts())
		for _, rank := range i.Ranks {
			if _, ok := pods[rank]; !ok {
				return fmt.Errorf("rank %d has no pod", rank)
			}
		}
		return nil
	})
}

// checkPhase returns nil if all workloads have one of the phases after a number of restarts.
func (n *runningLife) checkPhase(h *history, restarts int32, phases ...lifecycle.Phase) error {
	if want := len(newWorkloads(n.life, corev1.PodSpec{})); len(h.statuses) != want {
		return fmt.Errorf("%d of %d workloads exist", len(h.statuses), want)
	}
	for _, status := range h.statuses {
		is := false
		for _, phase := range phases {
			is = is || status.Phase == phase
		}
		done := status.Restarts + status.Disruptions
		if !is || done != restarts {
			return fmt.Errorf("the gang is %s after %d restarts, want %v after %d: %s",
				status.Phase, done, phases, restarts, status.Message)
		}
	}
	return nil
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
	case nodeLoss:
		if pod.Spec.NodeName == "" { // the recorder has not observed the node yet
			return apierrors.NewNotFound(corev1.Resource("nodes"), "")
		}
		return n.nodes.lose(ctx, pod)
	default:
		return n.nodes.exit(ctx, n.life, pod, i.ExitCode)
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

// end lets the programs of a gang that has not finished exit with code 0, and checks the result.
func (n *runningLife) end(ctx context.Context) error {
	if !n.model.finished() {
		last := incident{Cause: programExit}
		for rank := range n.Ranks {
			if !n.model.succeeded[rank] {
				last.Ranks = append(last.Ranks, rank)
			}
		}
		if err := n.injectLastExit(ctx, last); err != nil {
			return fmt.Errorf("%s at the end: %w", last, err)
		}
		n.model.finish()
	}
	check := func(h *history) error {
		if err := n.checkPhase(h, n.model.attempts(), n.model.phase); err != nil {
			return err
		}
		for _, pod := range h.pods {
			if isLive(pod) {
				return fmt.Errorf("the gang is %s, but the pod %s runs", n.model.phase, pod.Name)
			}
		}
		return nil
	}
	what := fmt.Sprintf("%s after %d restarts", n.model.phase, n.model.attempts())
	if err := n.recorder.waitFor(ctx, n.namespace, what, stepTimeout, check); err != nil {
		return err
	}
	time.Sleep(stablePeriod)
	return n.recorder.waitFor(ctx, n.namespace, what+" to last", pollInterval, check)
}

// injectLastExit injects the exit of all ranks that still run.
func (n *runningLife) injectLastExit(ctx context.Context, last incident) error {
	pods, err := n.waitForRanks(ctx, last)
	if err != nil {
		return err
	}
	_, err = n.hitRanks(ctx, last, pods)
	return err
}

// delete deletes the workloads, and checks that nothing of the gang remains.
func (n *runningLife) delete(ctx context.Context) error {
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	labeled := metav1.ListOptions{LabelSelector: gang.LabelFramework}
	err := errors.Join(
		retry(ctx, func() error {
			return n.client.BatchV1().Jobs(n.namespace).DeleteCollection(ctx, background, labeled)
		}),
		retry(ctx, func() error {
			return n.client.AppsV1().StatefulSets(n.namespace).DeleteCollection(ctx, background, labeled)
		}),
	)
	if err != nil {
		return err
	}
	left := errors.New("not checked yet")
	for end := time.Now().Add(stepTimeout); left != nil && time.Now().Before(end); time.Sleep(time.Second) {
		left = n.checkNothingLeft(ctx)
	}
	if left != nil {
		return fmt.Errorf("after the deletion of the gang: %w", left)
	}
	return errors.Join(n.nodes.cleanUp(ctx, n.namespace), retry(ctx, func() error {
		return n.client.CoreV1().Namespaces().Delete(ctx, n.namespace, metav1.DeleteOptions{})
	}))
}

// checkNothingLeft returns an error that names the objects of the gang that still exist.
func (n *runningLife) checkNothingLeft(ctx context.Context) error {
	ofGang := metav1.ListOptions{LabelSelector: gang.LabelGang}
	pods, podErr := n.client.CoreV1().Pods(n.namespace).List(ctx, ofGang)
	services, serviceErr := n.client.CoreV1().Services(n.namespace).List(ctx, ofGang)
	if err := errors.Join(podErr, serviceErr); err != nil {
		return err
	}
	var left []string
	for _, pod := range pods.Items {
		left = append(left, "pod "+pod.Name)
	}
	for _, service := range services.Items {
		left = append(left, "Service "+service.Name)
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %s", strings.Join(left, ", "))
	}
	return nil
}

// retry repeats a request that failed because the API server or the webhook restarts.
func retry(ctx context.Context, request func() error) error {
	err := request()
	for end := time.Now().Add(apiTimeout); err != nil && !isFinal(err) && time.Now().Before(end); err = request() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Second)
	}
	return err
}

// isFinal reports whether the repetition of a request has the same error.
func isFinal(err error) bool {
	return isGone(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err)
}

// isGone reports whether an object was deleted or replaced by another one of the same name.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// isAPIStatus reports whether the API server answered.
func isAPIStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isJobPod reports whether a Job owns a pod.
func isJobPod(pod corev1.Pod) bool { return pod.Labels[batchv1.JobNameLabel] != "" }

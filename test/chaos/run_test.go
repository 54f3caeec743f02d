package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

const (
	// stepTimeout bounds each step of a life. The longest contains a back-off of 160 s, the faults of two
	// nodes (2 minutes each), and an API server and a controller that restart.
	stepTimeout = 10 * time.Minute
	// lockedTimeout bounds the wait for an attempt while other lives wait for a lock.
	lockedTimeout = 2 * time.Second
	// apiTimeout bounds the retries of one request.
	apiTimeout = 2 * time.Minute
	// stablePeriod is how long a result must not change.
	stablePeriod = 2 * time.Second
)

// nodes are the nodes of a cluster, as far as a life depends on their kind.
type nodes interface {
	// newPodSpec returns the spec of a program that runs until it exits or hangs.
	newPodSpec(l life, namespace string) corev1.PodSpec
	// prepare creates what the life needs in its namespace.
	prepare(ctx context.Context, l life, namespace string) error
	// hit makes the program of a pod exit or hang, its preflight check fail, or its device unhealthy. The error is
	// NotFound or Conflict if the pod was deleted.
	hit(ctx context.Context, l life, pod corev1.Pod, i incident) error
	// fail causes a fault of the node of a pod. undo ends the fault.
	fail(ctx context.Context, c cause, pod corev1.Pod) (undo func(context.Context) error, err error)
	// cleanUp deletes what prepare created outside of the namespace.
	cleanUp(ctx context.Context, namespace string) error
}

// runner runs lives in one cluster.
type runner struct {
	client   kubernetes.Interface
	recorder *recorder
	nodes    nodes
	faults   nodeFaults
	// parallel is the number of lives at the same time.
	parallel int
	// incidents is locked while an incident happens, and exclusively during a fault that ends the attempts of several
	// gangs. Otherwise the model could not predict which of them ends an attempt.
	incidents sync.RWMutex
	// leader is locked while no controller may lead. If all ranks of a Job exit with code 0 then, the Job completes
	// (docs/adr/0005-restarts.md).
	leader sync.RWMutex
}

// runningLife is a life and its namespace.
type runningLife struct {
	*runner
	life
	model     *model
	namespace string
	// extra is the number of attempts that faults of other lives have ended so far.
	extra int32
	// ownFaults is the number of faults of shared nodes that are incidents of this life.
	ownFaults int32
}

// run runs a life from its creation to its deletion. It returns the number of restarts, and the invariants that the
// life violated.
func (r *runner) run(ctx context.Context, l life) (int32, error) {
	n := &runningLife{runner: r, life: l, model: newModel(l)}
	if err := n.create(ctx); err != nil {
		return 0, fmt.Errorf("creating the gang: %w", err)
	}
	for _, i := range l.Incidents {
		if err := n.injectIncident(ctx, i); err != nil {
			return 0, errors.Join(fmt.Errorf("%s: %w", i, err), n.violations(), n.statuses())
		}
	}
	if err := n.end(ctx); err != nil {
		return 0, errors.Join(err, n.violations(), n.statuses())
	}
	return n.leastRestarts(), errors.Join(n.delete(ctx), n.violations())
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

// statuses returns an error with all statuses that the gang had.
func (n *runningLife) statuses() (out error) {
	n.recorder.read(n.namespace, func(h *history) { out = errors.New(strings.Join(h.messages, "\n")) })
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

// end lets the programs of a gang that has not finished exit with code 0, and checks the result.
func (n *runningLife) end(ctx context.Context) error {
	for !n.model.finished() { // after a fault of another life, ranks that have succeeded run again
		last := incident{Cause: programExit, Ranks: n.model.running()}
		if err := n.injectIncident(ctx, last); err != nil {
			return fmt.Errorf("%s at the end: %w", last, err)
		}
	}
	check := func(h *history) error {
		if _, err := n.checkPhase(h, n.model.phase); err != nil {
			return err
		}
		for _, pod := range h.pods {
			if isLive(pod) {
				return fmt.Errorf("the gang is %s, but the pod %s runs", n.model.phase, pod.Name)
			}
		}
		return nil
	}
	what := fmt.Sprintf("%s after %d restarts", n.model.phase, n.leastRestarts())
	if err := n.recorder.waitFor(ctx, n.namespace, what, stepTimeout, check); err != nil {
		return err
	}
	time.Sleep(stablePeriod)
	return n.recorder.waitFor(ctx, n.namespace, what+" to last", pollInterval, check)
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

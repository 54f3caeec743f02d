package detach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
	"rollcall.training/internal/roster/cluster"
)

// FieldManager is the field manager of all writes.
const FieldManager = "rollcall-detach"

// pollInterval is the time between two looks at a gang whose pods are terminating.
const pollInterval = time.Second

// Detacher detaches gangs from Rollcall. All fields except Gangs and DryRun are required.
type Detacher struct {
	// Client is the connection to the API server. It must be allowed to get, list and patch Jobs and
	// StatefulSets, to patch the status of Jobs, and to list pods.
	Client kubernetes.Interface
	// Engine parses workloads. It must have the frameworks of the webhook that admitted them.
	Engine *injectors.Engine
	// Namespaces are the namespaces of the gangs. An empty name means all namespaces.
	Namespaces []string
	// Gangs are the names of the gangs, or of workloads in them. Nil means all gangs.
	Gangs []string
	// DryRun reports what Run would do and writes nothing.
	DryRun bool
	// Clock provides the time for the deadlines of pods, and waits.
	Clock clock.Clock
}

// Outcome is what happened to a workload.
type Outcome string

// The outcomes.
const (
	// Detached means that the workload was running or suspended by its user, and stays so.
	Detached Outcome = "detached"
	// Resumed means that Rollcall had suspended the workload, which is resumed now.
	Resumed Outcome = "resumed"
	// Queued means that Rollcall had suspended the Job, and that Kueue resumes it.
	Queued Outcome = "queued"
	// NotDetached means that the workload was not changed because of an error.
	NotDetached Outcome = "not detached"
)

// Result is the result for one workload.
type Result struct {
	Kind            gang.Kind
	Namespace, Name string
	Outcome         Outcome
	// Notes describe what the user has to know or to do.
	Notes []string
	// Err is the reason for NotDetached.
	Err error
}

// Run detaches the gangs, and passes the result of each workload to report. It waits for terminating
// pods until the context is done. The error is about the gangs as a whole; errors of single workloads
// are in the results. Workloads that have finished are skipped.
func (d Detacher) Run(ctx context.Context, report func(Result)) error {
	groups, err := d.listGroups(ctx)
	if err != nil {
		return err
	}
	kueueInstalled, err := d.isKueueInstalled()
	if err != nil {
		return err
	}
	for len(groups) > 0 {
		groups = slices.DeleteFunc(groups, func(g *group) bool {
			d.advance(ctx, g, kueueInstalled, report)
			return len(g.workloads) == 0
		})
		if len(groups) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			reportUnfinished(groups, report)
			return nil
		case <-d.Clock.After(pollInterval):
		}
	}
	return nil
}

// reportUnfinished reports the workloads that still wait when the context is done.
func reportUnfinished(groups []*group, report func(Result)) {
	for _, g := range groups {
		for _, w := range g.workloads {
			report(w.unfinishedResult())
		}
	}
}

// group is a gang with the workloads that are not detached yet.
type group struct {
	namespace, podGang string
	// podOwners contains the UIDs of the workloads whose pods may belong to the last attempt: all
	// workloads of the gang except those that are detached.
	podOwners []string
	workloads []*pending
}

// pending is a workload that is not detached yet.
type pending struct {
	gang.Workload
	// waiting is what the workload waits for; nil before the first attempt to detach it.
	waiting error
	// resumed is the result of a workload that is detached and whose pods do not exist yet.
	resumed *Result
}

// listGroups returns the gangs with workloads that Rollcall manages and that have not finished.
func (d Detacher) listGroups(ctx context.Context) ([]*group, error) {
	var groups []*group
	found := map[string]bool{}
	for _, namespace := range d.Namespaces {
		workloads, err := cluster.ListWorkloads(ctx, d.Client, namespace)
		if err != nil {
			return nil, err
		}
		for _, g := range roster.ReadGangs(d.Engine, workloads) {
			groups = append(groups, d.newGroups(g, found)...)
		}
	}
	for _, name := range d.Gangs {
		if !found[name] {
			return nil, fmt.Errorf(
				"gang %q not found: no Job or StatefulSet of the gang has the label %s, or all have %s: \"false\"",
				name, gang.LabelFramework, gang.LabelInject)
		}
	}
	return groups, nil
}

// newGroups returns the group of a gang, and one for each other workload with the name of the gang. It leaves out
// groups that are not selected or have finished.
func (d Detacher) newGroups(g roster.Gang, found map[string]bool) []*group {
	var groups []*group
	add := func(members []roster.Member, names ...string) {
		out := &group{namespace: g.Namespace}
		for _, w := range members {
			names, out.podOwners = append(names, w.Meta().Name), append(out.podOwners, string(w.Meta().UID))
			if !isFinished(w.Workload) {
				out.podGang = w.Template().Labels[gang.LabelGang]
				out.workloads = append(out.workloads, &pending{Workload: w.Workload})
			}
		}
		if d.selects(names, found) && len(out.workloads) > 0 {
			groups = append(groups, out)
		}
	}
	add(g.Members, g.Name)
	for _, w := range slices.Concat(g.EarlierRun, g.Strangers) {
		add([]roster.Member{w})
	}
	return groups
}

// selects reports whether workloads of the given names are to be detached, and records the names by which they
// were selected.
func (d Detacher) selects(names []string, found map[string]bool) bool {
	selected := len(d.Gangs) == 0
	for _, name := range names {
		if slices.Contains(d.Gangs, name) {
			found[name], selected = true, true
		}
	}
	return selected
}

// isFinished reports whether a workload needs no manager: it has finished, nothing was injected, or
// another controller manages it.
func isFinished(w gang.Workload) bool {
	observed := lifecycle.Observe(w)
	return !w.IsInjected() || observed.Complete || observed.Failed || w.IsManagedExternally() ||
		lifecycle.ReadStatus(w).Phase.Terminal() || w.Meta().DeletionTimestamp != nil
}

// advance detaches the workloads of a gang that are ready for it, and removes them from the gang.
func (d Detacher) advance(ctx context.Context, g *group, kueueInstalled bool, report func(Result)) {
	g.workloads = slices.DeleteFunc(g.workloads, func(p *pending) bool {
		result, err := d.detachWorkload(ctx, g, p, kueueInstalled)
		if err == nil || p.resumed != nil {
			g.removePodOwner(p.Workload)
		}
		var wait waitError
		switch {
		case err == nil:
			report(result)
			return true
		case errors.As(err, &wait) && ctx.Err() == nil:
			p.waiting = err
			return false
		case apierrors.IsNotFound(err):
			return true // deleted meanwhile
		default:
			p.waiting = err
			report(p.unfinishedResult())
			return true
		}
	})
}

// unfinishedResult returns the result of a workload that cannot be detached, or whose pods do not exist
// in time.
func (p *pending) unfinishedResult() Result {
	if p.resumed == nil {
		return newResult(p.Workload, NotDetached, p.waiting)
	}
	result := *p.resumed
	result.Err = p.waiting
	return result
}

// waitError is the reason why a workload cannot be detached yet.
type waitError struct{ reason string }

func (e waitError) Error() string { return e.reason }

// detachWorkload detaches one workload. The error is a [waitError] if it has to be repeated.
func (d Detacher) detachWorkload(ctx context.Context, g *group, p *pending, kueueInstalled bool) (Result, error) {
	w := p.Workload
	if p.waiting != nil { // the list is not current any more
		current, err := d.getWorkload(ctx, w)
		if err != nil {
			return Result{}, err
		}
		p.Workload, w = current, current
		switch {
		case p.resumed != nil:
			return *p.resumed, waitForPods(w)
		case w.OptedOut() || isFinished(w):
			return newResult(w, Detached, nil), nil
		}
	}
	status := lifecycle.ReadStatus(w)
	outcome := Detached
	changed := w.DeepCopy()
	if status.SuspendedByRollcall && w.IsSuspended() {
		if !d.DryRun {
			if err := d.prepareResume(ctx, g, w); err != nil {
				return Result{}, err
			}
		}
		var err error
		if outcome, err = resume(changed, status, kueueInstalled); err != nil {
			return Result{}, err
		}
	}
	optOut(changed)
	result := newResult(w, outcome, nil)
	result.Notes = d.limit(changed)
	if d.DryRun {
		return result, nil
	}
	if err := d.patch(ctx, w, changed); err != nil {
		return Result{}, err
	}
	if outcome == Resumed && needsRankAdmission(w) {
		p.resumed = &result
		return result, waitForPods(w)
	}
	return result, nil
}

// needsRankAdmission reports whether admission sets the rank of the pods of a workload. Pods that are
// created after Rollcall is uninstalled have no rank.
func needsRankAdmission(w gang.Workload) bool { return w.Template().Labels[gang.LabelRankOffset] != "" }

// waitForPods returns a [waitError] unless all pods of a resumed workload exist.
func waitForPods(w gang.Workload) error {
	existing := int32(0)
	if w.Job != nil {
		existing = w.Job.Status.Active + w.Job.Status.Succeeded
	} else if w.StatefulSet.Status.ObservedGeneration >= w.StatefulSet.Generation {
		existing = w.StatefulSet.Status.Replicas
	}
	if w.IsSuspended() || existing < w.Ranks() {
		return waitError{"its pods are not created yet, and pods that are created without Rollcall have no rank"}
	}
	return nil
}

// resume resumes a workload, or prepares a Job for the queue that resumes it.
func resume(w gang.Workload, status lifecycle.Status, kueueInstalled bool) (Outcome, error) {
	status.RemoveAvoidance(w)
	status.QueueNodes.RemoveFrom(&w.Template().Spec)
	if w.QueueName() != "" && kueueInstalled {
		w.SetAttempt(status.Attempt)
		return Queued, nil
	}
	if !attempt.Resume(w, status.Attempt) {
		return NotDetached, errors.New("its size is not known; scale it up, then detach it")
	}
	return Resumed, nil
}

// optOut makes Rollcall ignore a workload, and removes the phase, which nobody updates any more. The
// annotation with the status stays, for a manager that manages the gang again.
func optOut(w gang.Workload) {
	w.Meta().Labels[gang.LabelInject] = "false"
	delete(w.Meta().Labels, gang.LabelPhase)
}

// prepareResume waits until the last attempt of a gang has ended, and resets the status of a Job. It
// returns a [waitError] until the workload can be resumed.
func (d Detacher) prepareResume(ctx context.Context, g *group, w gang.Workload) error {
	if !lifecycle.Observe(w).SuspensionObserved {
		return waitError{"its controller has not observed the suspension"}
	}
	pods, err := d.Client.CoreV1().Pods(g.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: gang.LabelGang + "=" + g.podGang})
	if err != nil {
		return fmt.Errorf("listing the pods of gang %s: %w", g.podGang, err)
	}
	var own []corev1.Pod // pods of w
	for i := range pods.Items {
		pod := &pods.Items[i]
		if metav1.IsControlledBy(pod, w.Meta()) {
			own = append(own, *pod)
		}
		if g.ownsPod(pod) {
			if err := d.requireTermination(ctx, w, pod); err != nil {
				return err
			}
		}
	}
	if w.Job == nil {
		return nil
	}
	if attempt.HasLabel(w) && (attempt.HasUncountedPods(w.Job) || lifecycle.HasUncountedSuccess(w.Job, own)) {
		return waitError{"the Job controller has not counted all pods"}
	}
	reset := w.DeepCopy()
	if !attempt.ResetJobStatus(reset.Job, attempt.HasLabel(reset)) {
		return nil
	}
	if err := d.patch(ctx, w, reset, "status"); err != nil {
		return err
	}
	return waitError{"its status was reset"}
}

// requireTermination returns a [waitError] unless a pod of the last attempt has terminated, or may only run on an
// unreachable node and is excluded from the Service of the gang. The controller changes the Service.
func (d Detacher) requireTermination(ctx context.Context, w gang.Workload, pod *corev1.Pod) error {
	switch {
	case lifecycle.IsPodTerminal(pod) || failure.IsDeletionConfirmed(pod):
		return nil
	case !lifecycle.IsTerminationOverdue(pod, d.Clock.Now()):
		return waitError{"pod " + pod.Name + " of the last attempt is terminating"}
	}
	service, err := d.Client.CoreV1().Services(pod.Namespace).Get(ctx, w.ServiceName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the Service of %s: %w", w.Meta().Name, err)
	}
	attemptNumber := strconv.Itoa(int(lifecycle.ReadStatus(w).Attempt))
	if err == nil && service.Spec.Selector[gang.LabelAttempt] != attemptNumber {
		return waitError{fmt.Sprintf("pod %s of the last attempt may still run on the unreachable node %s, and ranks could "+
			"connect to it; stop the node, and delete the pod by force", pod.Name, pod.Spec.NodeName)}
	}
	return nil
}

// ownsPod reports whether a workload of the gang that is not detached owns a pod. Other gangs can have
// the same name.
func (g *group) ownsPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && slices.Contains(g.podOwners, string(owner.UID))
}

// removePodOwner removes a detached workload. Its pods run, and another member must not wait for them.
func (g *group) removePodOwner(w gang.Workload) {
	g.podOwners = slices.DeleteFunc(g.podOwners, func(uid string) bool { return uid == string(w.Meta().UID) })
}

func newResult(w gang.Workload, outcome Outcome, err error) Result {
	return Result{Kind: w.Kind(), Namespace: w.Meta().Namespace, Name: w.Meta().Name, Outcome: outcome, Err: err}
}

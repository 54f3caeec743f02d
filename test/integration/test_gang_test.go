package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// testGang is a gang in its own namespace. The test runs its pods.
type testGang struct {
	*manager
	t  *testing.T
	ns string
	// jobs and statefulSets are the names of its members.
	jobs, statefulSets []string
}

// runFakeKubelet runs the pods of a namespace until the test ends. It reports each new pod as
// running and ready, except those that lag selects. Pods without a real node disappear as soon as
// they are deleted.
func (m *manager) runFakeKubelet(t *testing.T, ns string, lag func(corev1.Pod) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			list, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
			if err == nil {
				for _, p := range list.Items {
					if p.DeletionTimestamp == nil && p.Status.StartTime == nil && p.Status.Phase == corev1.PodPending &&
						(lag == nil || !lag(p)) {
						m.reportPodRunning(ctx, p)
					}
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// reportPodRunning reports a pod as running. It ignores errors, because the pod may have been
// changed or deleted. The next pass finds it again.
func (m *manager) reportPodRunning(ctx context.Context, p corev1.Pod) {
	now := metav1.Now()
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	p.Status.Conditions = append(slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady
	}),
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	_, _ = m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
}

// createGang creates the workloads of a gang. It does not run their pods.
func (m *manager) createGang(t *testing.T, ns string, workloads ...gang.Workload) *testGang {
	t.Helper()
	r := &testGang{manager: m, t: t, ns: ns}
	for _, w := range workloads {
		if w.Job != nil {
			r.jobs = append(r.jobs, m.createJob(t, ns, w.Job).Name)
		} else {
			r.statefulSets = append(r.statefulSets, m.createStatefulSet(t, ns, w.StatefulSet).Name)
		}
	}
	return r
}

// createInRandomOrder creates gangs of Jobs. Any Job of any gang can be the first.
func (m *manager) createInRandomOrder(t *testing.T, ns string, gangs ...[]gang.Workload) []*testGang {
	t.Helper()
	type member struct {
		gang *testGang
		job  *batchv1.Job
	}
	var out []*testGang
	var order []member
	for _, workloads := range gangs {
		r := &testGang{manager: m, t: t, ns: ns}
		out = append(out, r)
		for _, w := range workloads {
			order = append(order, member{gang: r, job: w.Job})
		}
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, o := range order {
		o.gang.jobs = append(o.gang.jobs, m.createJob(t, ns, o.job).Name)
	}
	return out
}

// startGang creates the gang, runs its pods, and waits until the gang is Running.
func (m *manager) startGang(t *testing.T, ns string, workloads ...gang.Workload) *testGang {
	t.Helper()
	m.runFakeKubelet(t, ns, nil)
	r := m.createGang(t, ns, workloads...)
	r.waitForPhase(lifecycle.Running, 0)
	return r
}

// getWorkloads reads the members.
func (r *testGang) getWorkloads(ctx context.Context) ([]gang.Workload, error) {
	var out []gang.Workload
	for _, name := range r.jobs {
		j, err := r.Client.BatchV1().Jobs(r.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, gang.Workload{Job: j})
	}
	for _, name := range r.statefulSets {
		s, err := r.Client.AppsV1().StatefulSets(r.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, gang.Workload{StatefulSet: s})
	}
	return out, nil
}

// waitForPhase waits until all members have the phase and the number of restarts, and returns the
// status of the first member.
func (r *testGang) waitForPhase(phase lifecycle.Phase, attempt int32) lifecycle.Status {
	r.t.Helper()
	var out lifecycle.Status
	wait.For(r.t, fmt.Sprintf("%s with %d restarts", phase, attempt), func(ctx context.Context) error {
		if err := r.checkPhase(phase, attempt)(ctx); err != nil {
			return err
		}
		all, err := r.getWorkloads(ctx)
		if err == nil {
			out = lifecycle.ReadStatus(all[0])
		}
		return err
	})
	return out
}

// checkPhase returns a function that checks whether all members have the phase and the number of
// restarts, after failures and disruptions.
func (r *testGang) checkPhase(phase lifecycle.Phase, restarts int32) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		for _, w := range all {
			if s := lifecycle.ReadStatus(w); lifecycle.ReadPhase(w) != phase || s.Restarts+s.Disruptions != restarts {
				return fmt.Errorf("%s: label %q, status %s",
					w.Meta().Name, lifecycle.ReadPhase(w), w.Meta().Annotations[gang.AnnotationStatus])
			}
		}
		return nil
	}
}

// checkPhaseStable fails the test if the phase or the number of restarts changes within d.
func (r *testGang) checkPhaseStable(d time.Duration) {
	r.t.Helper()
	all, err := r.getWorkloads(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	before := lifecycle.ReadStatus(all[0])
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if all, err = r.getWorkloads(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		for _, w := range all {
			if s := lifecycle.ReadStatus(w); s.Phase != before.Phase || s.Attempt != before.Attempt {
				r.t.Fatalf("%s left %s of attempt %d: %+v", w.Meta().Name, before.Phase, before.Attempt, s)
			}
		}
	}
}

// listActivePods returns the pods of the gang that are not terminating, by role and index. A pod that has
// succeeded still exists with the pod of the next attempt, which is returned.
func (r *testGang) listActivePods() map[string]corev1.Pod {
	r.t.Helper()
	list, err := r.Client.CoreV1().Pods(r.ns).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		owner := metav1.GetControllerOf(&p)
		if owner == nil || !slices.Contains(slices.Concat(r.jobs, r.statefulSets), owner.Name) {
			continue
		}
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			continue
		}
		name := fmt.Sprintf("%s-%d", p.Labels[gang.LabelRole], gang.PodIndex(&p))
		if other, ok := out[name]; !ok || readAttempt(r.t, p) > readAttempt(r.t, other) {
			out[name] = p
		}
	}
	return out
}

// readAttempt returns the attempt of a pod; 0 for a pod of a StatefulSet.
func readAttempt(t *testing.T, p corev1.Pod) int {
	t.Helper()
	text, ok := p.Labels[gang.LabelAttempt]
	if !ok {
		return 0
	}
	attempt, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return attempt
}

// getActivePod returns one of them.
func (r *testGang) getActivePod(name string) corev1.Pod {
	r.t.Helper()
	p, ok := r.listActivePods()[name]
	if !ok {
		r.t.Fatalf("there is no pod %s", name)
	}
	return p
}

// patchPodStatus patches only the status of a pod, because the Job controller may have removed its
// finalizer.
func (r *testGang) patchPodStatus(p corev1.Pod) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": p.Status})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Client.CoreV1().Pods(r.ns).Patch(
		r.t.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		r.t.Fatalf("reporting the status of %s: %v", p.Name, err)
	}
}

// failContainer reports that the container of a pod exited with a code, as the kubelet does.
func (r *testGang) failContainer(p corev1.Pod, code int32) {
	r.t.Helper()
	r.patchPodStatus(copyWithFailedContainer(p, code))
}

// failContainerIfPresent is failContainer for a pod that may have been deleted.
func (r *testGang) failContainerIfPresent(p corev1.Pod, code int32) {
	r.t.Helper()
	p = copyWithFailedContainer(p, code)
	p.ResourceVersion = ""
	_, err := r.Client.CoreV1().Pods(r.ns).UpdateStatus(r.t.Context(), &p, metav1.UpdateOptions{})
	if err != nil && !isPodGone(err) {
		r.t.Fatalf("reporting the status of %s: %v", p.Name, err)
	}
}

// isPodGone reports whether a write to a pod failed because the pod was deleted. Before Kubernetes
// 1.36, the error is a conflict of UIDs.
func isPodGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err)
}

// copyWithFailedContainer returns a pod as the kubelet first reports it after the exit of a container: the container
// has terminated, and the phase is still Running. With a policy or rules for that, the container restarts (KEP-5307).
func copyWithFailedContainer(p corev1.Pod, code int32) corev1.Pod {
	p = *p.DeepCopy()
	c := &p.Status.ContainerStatuses[0]
	end := &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Error", Message: fmt.Sprintf("%s says %d",
			gang.AnnotationStatus, code), FinishedAt: metav1.Now()}
	if p.Spec.RestartPolicy == corev1.RestartPolicyNever && len(p.Spec.Containers[0].RestartPolicyRules) == 0 {
		c.State = corev1.ContainerState{Terminated: end}
		return p
	}
	c.RestartCount++
	c.LastTerminationState.Terminated = end
	return p
}

// failPod reports that the container of a pod failed, and that the pod failed with it.
func (r *testGang) failPod(p corev1.Pod, code int32) {
	r.t.Helper()
	p = copyWithFailedContainer(p, code)
	p.Status.Phase = corev1.PodFailed
	r.patchPodStatus(p)
}

// succeedPod reports that a pod succeeded.
func (r *testGang) succeedPod(p corev1.Pod) {
	r.t.Helper()
	r.setPodPhases(r.t, []corev1.Pod{p}, corev1.PodSucceeded)
}

// checkPodsReplaced fails the test unless the gang has as many pods as before, all of them new and
// of the attempt.
func (r *testGang) checkPodsReplaced(before map[string]corev1.Pod, attempt string) {
	r.t.Helper()
	now := r.listActivePods()
	if len(now) != len(before) {
		r.t.Errorf("%d pods, want %d", len(now), len(before))
	}
	for name, p := range now {
		if p.UID == before[name].UID {
			r.t.Errorf("%s was not restarted", name)
		}
		if metav1.GetControllerOf(&p).Kind == string(gang.Job) && p.Labels[gang.LabelAttempt] != attempt {
			r.t.Errorf("%s has the attempt label %q, want %q", name, p.Labels[gang.LabelAttempt], attempt)
		}
	}
}

// waitForJobFailure waits until a Job has failed and returns it.
func (r *testGang) waitForJobFailure(name string) *batchv1.Job {
	r.t.Helper()
	var j *batchv1.Job
	wait.For(r.t, "the failure of the Job "+name, func(ctx context.Context) (err error) {
		if j, err = r.Client.BatchV1().Jobs(r.ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		has := map[batchv1.JobConditionType]bool{}
		for _, c := range j.Status.Conditions {
			has[c.Type] = c.Status == corev1.ConditionTrue
		}
		if !has[batchv1.JobFailed] || !has["GangFailed"] || has["GangRunning"] {
			return fmt.Errorf("conditions %v", has)
		}
		return nil
	})
	return j
}

// waitForPodsGone waits until the role has no pods, except terminating ones.
func (r *testGang) waitForPodsGone(role string) {
	r.t.Helper()
	wait.For(r.t, "the deletion of the pods", func(context.Context) error {
		for name, p := range r.listActivePods() {
			if strings.HasPrefix(name, role+"-") && p.Status.Phase != corev1.PodSucceeded {
				return errors.New(name + " still exists")
			}
		}
		return nil
	})
}

func (r *testGang) patchPod(p corev1.Pod, patch string) {
	r.t.Helper()
	if _, err := r.Client.CoreV1().Pods(r.ns).Patch(
		r.t.Context(), p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
	); err != nil {
		r.t.Fatalf("patching %s with %s: %v", p.Name, patch, err)
	}
}

func (r *testGang) patchJob(name, patch string) {
	r.t.Helper()
	if _, err := r.Client.BatchV1().Jobs(r.ns).Patch(
		r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
	); err != nil {
		r.t.Fatalf("patching %s with %s: %v", name, patch, err)
	}
}

// newTrainingWorkload returns a Job without a backoffLimit, which Rollcall may restart.
func newTrainingWorkload(ranks int32, annotations ...string) gang.Workload {
	j := newJob("train", ranks)
	j.Spec.BackoffLimit = nil
	j.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		j.Annotations[annotations[i]] = annotations[i+1]
	}
	return gang.Workload{Job: j}
}

// newMemberJob returns a member of a gang of several Jobs.
func newMemberJob(role string, ranks int32, roles string, annotations ...string) gang.Workload {
	w := newTrainingWorkload(ranks, append(annotations, gang.AnnotationRoles, roles)...)
	w.Job.Name = "train-" + role
	w.Job.Labels[gang.LabelRole] = role
	return w
}

// newMasterAndWorkers returns two Jobs of 1 and 2 ranks.
func newMasterAndWorkers(annotations ...string) []gang.Workload {
	const roles = "master=1,worker=2"
	return []gang.Workload{
		newMemberJob("master", 1, roles, annotations...), newMemberJob("worker", 2, roles, annotations...),
	}
}

// newLauncherAndWorkers returns a Job and a StatefulSet.
func newLauncherAndWorkers(workers int32) []gang.Workload {
	l := newLauncher(workers)
	l.Spec.BackoffLimit = nil
	return []gang.Workload{{Job: l}, {StatefulSet: newWorkers(workers)}}
}

var singleStatefulSet = gang.Workload{StatefulSet: newStatefulSet("train", 3)}

func staysPendingInFirstAttempt(p corev1.Pod) bool {
	return p.Labels[gang.LabelAttempt] == "0" && gang.PodIndex(&p) == 1
}

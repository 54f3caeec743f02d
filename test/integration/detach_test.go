package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// runDetach detaches all gangs of the namespace with the credentials of the managers, as the hook of the
// chart does.
func (r *testGang) runDetach() []detach.Result {
	r.t.Helper()
	d := detach.Detacher{
		Client:     kubernetes.NewForConfigOrDie(newManagerConfig(r.t, r.Cluster.Config(), installation.ControllerName)),
		Engine:     injectors.NewEngine(injectors.Builtin(), gang.Config{}),
		Namespaces: []string{r.ns},
		Clock:      clock.RealClock{},
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), wait.Timeout)
	defer cancel()
	var results []detach.Result
	if err := d.Run(ctx, func(result detach.Result) { results = append(results, result) }); err != nil {
		r.t.Fatal(err)
	}
	for _, result := range results {
		if result.Err != nil {
			r.t.Errorf("%v", result)
		}
	}
	return results
}

// detachInBackoff detaches a gang that start returns in its back-off of 10 s. On a slow machine, the back-off can end
// before the gang is detached. Then it starts another gang in another namespace.
func detachInBackoff(t *testing.T, m *manager, start func(ns string) *testGang) (*testGang, []detach.Result) {
	t.Helper()
	for range 5 {
		r := start(m.createNamespace(t))
		results := r.runDetach()
		if !slices.ContainsFunc(results, func(r detach.Result) bool { return r.Outcome == detach.Detached }) {
			return r, results
		}
		t.Log("The back-off ended before the gang was detached")
	}
	t.Fatal("the back-off always ended before the gang was detached")
	return nil, nil
}

// testDetachRestarting detaches a restarting gang in its back-off while a manager runs. A rank of the gang
// has succeeded, and must run again. The manager must not act on the gang any more.
func testDetachRestarting(t *testing.T, m *manager, _ string) {
	var before string
	r, results := detachInBackoff(t, m, func(ns string) *testGang {
		r := m.startGang(t, ns, newTrainingWorkload(3, gang.AnnotationMaxRestarts, "5"))
		r.failUntilBackoff()
		before = r.waitForSuspendedJob()
		return r
	})
	if len(results) != 1 || results[0].Outcome != detach.Resumed {
		t.Fatalf("the results are %v", results)
	}
	job := r.getJob("train")
	if ptr.Deref(job.Spec.Suspend, false) || job.Labels[gang.LabelInject] != "false" || job.Labels[gang.LabelPhase] != "" {
		t.Errorf("suspend = %v, labels %v", job.Spec.Suspend, job.Labels)
	}
	wait.For(t, "three pods of the next attempt", func(context.Context) error {
		pods := r.listActivePods()
		if len(pods) != 3 {
			return fmt.Errorf("%d pods", len(pods))
		}
		for name, pod := range pods {
			if pod.Labels[gang.LabelAttempt] != "2" || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s in attempt %s", name, pod.Status.Phase, pod.Labels[gang.LabelAttempt])
			}
		}
		return nil
	})
	r.failContainer(r.getActivePod("worker-0"), 3)
	r.checkNotManaged(before)
}

// failUntilBackoff fails a rank of the gang twice. The second restart has a back-off of 10 s, and includes a rank that
// has succeeded.
func (r *testGang) failUntilBackoff() {
	r.t.Helper()
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-0"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.succeedPod(r.getActivePod("worker-2"))
	wait.For(r.t, "the completed index", func(context.Context) error {
		if r.getJob("train").Status.CompletedIndexes != "2" {
			return errors.New("not completed")
		}
		return nil
	})
	r.failContainer(r.getActivePod("worker-0"), 3)
}

// testDetachRestartingMembers detaches a gang of two Jobs in its back-off. A rank of one of them has succeeded, so
// that Job is resumed later than the other one, whose pods run then.
func testDetachRestartingMembers(t *testing.T, m *manager, _ string) {
	_, results := detachInBackoff(t, m, func(ns string) *testGang {
		r := m.startGang(t, ns, newMasterAndWorkers(gang.AnnotationMaxRestarts, "5")...)
		r.failContainer(r.getActivePod("master-0"), 3)
		r.waitForPhase(lifecycle.Running, 1)
		r.succeedPod(r.getActivePod("worker-1"))
		wait.For(t, "the completed index", func(context.Context) error {
			if r.getJob("train-worker").Status.CompletedIndexes != "1" {
				return errors.New("not completed")
			}
			return nil
		})
		r.failContainer(r.getActivePod("master-0"), 3)
		r.waitForPhase(lifecycle.Restarting, 2)
		return r
	})
	if len(results) != 2 {
		t.Fatalf("the results are %v, want those of two Jobs", results)
	}
	for _, result := range results {
		if result.Outcome != detach.Resumed {
			t.Errorf("the result is %v, want %s", result, detach.Resumed)
		}
	}
}

// waitForSuspendedJob waits until Rollcall has suspended the Job train for its second restart, and returns
// its status annotation.
func (r *testGang) waitForSuspendedJob() string {
	r.t.Helper()
	var status string
	wait.For(r.t, "the second restart", func(context.Context) error {
		job := r.getJob("train")
		s := lifecycle.ReadStatus(gang.Workload{Job: job})
		if s.Phase != lifecycle.Restarting || s.Restarts != 2 || !ptr.Deref(job.Spec.Suspend, false) {
			return fmt.Errorf("%s with %d restarts", s.Phase, s.Restarts)
		}
		status = job.Annotations[gang.AnnotationStatus]
		return nil
	})
	return status
}

// checkNotManaged fails the test if a manager changes the Job train within 15 s, which is longer than the
// back-off.
func (r *testGang) checkNotManaged(status string) {
	r.t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		job := r.getJob("train")
		if ptr.Deref(job.Spec.Suspend, false) || job.Labels[gang.LabelPhase] != "" ||
			job.Annotations[gang.AnnotationStatus] != status {
			r.t.Fatalf("the manager changed the Job: suspend %v, labels %v, status %s, before %s",
				job.Spec.Suspend, job.Labels, job.Annotations[gang.AnnotationStatus], status)
		}
	}
}

// testLimitWithoutManager checks that the Job of a gang with a bug fails by itself, as while no manager
// runs: the gang opted out. A rank may fail four times for its only attempt, and no disruption is permitted. The
// failures are reported minutes late, so that the Job controller does not wait for its back-off.
func testLimitWithoutManager(t *testing.T, m *manager, ns string) {
	w := newTrainingWorkload(2, gang.AnnotationMaxRestarts, "0", gang.AnnotationMaxDisruptions, "0")
	r := m.startGang(t, ns, w)
	r.patchJob("train", `{"metadata":{"labels":{"`+gang.LabelInject+`":"false"}}}`)
	failed := map[string]bool{}
	var job *batchv1.Job
	waitFor := func(check func() bool) {
		for end := time.Now().Add(2 * wait.Timeout); !check(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the Job did not fail after %d failures", len(failed))
			}
		}
	}
	waitFor(func() bool {
		pod, ok := r.listActivePods()["worker-1"]
		if ok && pod.Status.Phase == corev1.PodRunning && !failed[string(pod.UID)] {
			failed[string(pod.UID)] = true
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "trainer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 3, FinishedAt: metav1.NewTime(time.Now().Add(-10 * time.Minute))}}}}}
			r.patchPodStatus(pod)
		}
		job = r.getJob("train")
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue &&
				c.Reason == batchv1.JobReasonMaxFailedIndexesExceeded
		})
	})
	if len(failed) != 5 {
		t.Errorf("the Job failed after %d failures of a rank, want 5", len(failed))
	}
	pods, err := m.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods run after the Job failed (%v)", len(pods.Items), err)
	}
}

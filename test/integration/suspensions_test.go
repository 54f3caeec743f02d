package integration

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// beginRestart makes a rank fail and returns while the gang terminates. One pod keeps terminating
// until the returned function is called.
func (r *testGang) beginRestart(falls, lasts string) func() {
	r.t.Helper()
	terminate := r.holdTermination(r.getActivePod(lasts))
	r.failContainer(r.getActivePod(falls), 3)
	r.waitForPhase(lifecycle.Restarting, 1)
	return terminate
}

// holdTermination binds a pod to a node that does not exist. After its deletion, the pod terminates until
// the returned function is called, because no kubelet confirms that its containers are gone.
func (r *testGang) holdTermination(p corev1.Pod) (terminate func()) {
	r.t.Helper()
	pods := r.Client.CoreV1().Pods(r.ns)
	if err := pods.Bind(r.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: r.ns},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "without-kubelet"},
	}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		r.t.Helper()
		err := pods.Delete(r.t.Context(), p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *testGang) getJob(name string) *batchv1.Job {
	r.t.Helper()
	j, err := r.Client.BatchV1().Jobs(r.ns).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// resumeJob resumes a suspended Job. It first waits until the start time is cleared: before
// Kubernetes 1.36, a Job that is resumed earlier never gets pods again (kubernetes#134521). It also waits until the
// template has the number of the next attempt: on a busy machine, the webhook that adds it to a Job that is resumed
// earlier can exceed its timeout of a second, and is ignored.
func (r *testGang) resumeJob(name string) {
	r.t.Helper()
	wait.For(r.t, "the next attempt of "+name, func(context.Context) error {
		job := r.getJob(name)
		w := gang.Workload{Job: job}
		have, want := w.Template().Labels[gang.LabelAttempt], strconv.Itoa(int(lifecycle.ReadStatus(w).Attempt))
		if at := job.Status.StartTime; at != nil || have != want {
			return fmt.Errorf("its start time is %v, its template has the attempt %q, want %q", at, have, want)
		}
		return nil
	})
	r.patchJob(name, `{"spec":{"suspend":false}}`)
}

// testSuspendDuringRestart checks that a Job stays suspended if its user suspends it during a
// restart, and that the restart continues when the user resumes it.
func testSuspendDuringRestart(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before := r.listActivePods()
	terminate := r.beginRestart("worker-1", "worker-0")
	r.patchJob("train", `{"spec":{"suspend":true}}`)
	r.waitForPhase(lifecycle.Suspended, 1)
	terminate()
	r.checkPhaseStable(4 * time.Second)
	if !ptr.Deref(r.getJob("train").Spec.Suspend, false) {
		t.Error("the Job was resumed")
	}
	r.resumeJob("train")
	s := r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	if s.FirstFailure == nil || s.FirstFailure.Rank != 1 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.checkPhaseStable(2 * time.Second)
	r.failContainer(r.getActivePod("worker-2"), 3)
	r.waitForPhase(lifecycle.Running, 2)
}

// testRestartOneMemberSuspended checks that one suspended member keeps all members suspended.
func testRestartOneMemberSuspended(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	before := r.listActivePods()
	terminate := r.beginRestart("worker-1", "worker-0")
	r.patchJob("train-worker", `{"spec":{"suspend":true}}`)
	r.waitForPhase(lifecycle.Suspended, 1)
	terminate()
	r.checkPhaseStable(4 * time.Second)
	for _, name := range r.jobs {
		if !ptr.Deref(r.getJob(name).Spec.Suspend, false) {
			t.Errorf("%s was resumed", name)
		}
	}
	r.resumeJob("train-worker")
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testResumeNextToTerminatingPod checks that the Service of a gang excludes a terminating pod before its user resumes
// the gang.
func testResumeNextToTerminatingPod(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before := r.listActivePods()
	terminate := r.holdTermination(r.getActivePod("worker-0"))
	checkSelector := func(ctx context.Context) error {
		service, err := m.Client.CoreV1().Services(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && service.Spec.Selector[gang.LabelAttempt] != "1" {
			err = fmt.Errorf("the Service selects %v", service.Spec.Selector)
		}
		return err
	}
	r.patchJob("train", `{"spec":{"suspend":true}}`)
	r.waitForPhase(lifecycle.Suspended, 0)
	wait.For(t, "the Service to exclude the terminating pod", checkSelector)
	r.resumeJob("train")
	terminate()
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPodsReplaced(before, "1")
	if err := checkSelector(t.Context()); err != nil {
		t.Error(err)
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// The tests of this file are sequences of the simulation that once ended wrongly, with real controllers of Kubernetes.

// testResizeDenied checks that a gang restarts after a failure of a rank although a policy of the cluster denies its
// resize (sequence 24).
func testResizeDenied(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, gang.Workload{StatefulSet: newStatefulSet("train", 3)})
	before := r.listActivePods()
	const record = `.metadata.annotations['` + gang.AnnotationInjected + `']`
	m.denyUpdates(t, ns, deniedUpdate{
		group: appsv1.GroupName, resource: "statefulsets",
		allowed: "object" + record + " == oldObject" + record,
		message: "StatefulSets must not be resized", reason: metav1.StatusReasonForbidden,
	}, func(ctx context.Context) error {
		_, err := m.Client.AppsV1().StatefulSets(ns).Patch(ctx, "train", types.MergePatchType,
			[]byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "scale", "statefulset/train", "--replicas=4"); err != nil {
		t.Fatal(err)
	}
	m.waitForEvent(t, ns, gang.ReasonResizeRejected)
	r.failContainer(r.getActivePod("worker-1"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "") // with the size that admission permitted
}

// newEqualJobs returns two Jobs that both complete the gang. The first is deleted as soon as it has finished.
func newEqualJobs() []gang.Workload {
	out := newMasterAndWorkers(gang.AnnotationSuccessPolicy, gang.SuccessPolicyAll)
	out[0].Job.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
	return out
}

// completeRemovedMember starts a gang of newEqualJobs, and completes the first Job, which Kubernetes then deletes.
func (m *manager) completeRemovedMember(t *testing.T, ns string) *testGang {
	t.Helper()
	r := m.startGang(t, ns, newEqualJobs()...)
	r.succeedPod(r.getActivePod("master-0"))
	m.waitForJobGone(t, ns, "train-master")
	r.jobs = []string{"train-worker"}
	r.checkPhaseStable(2 * time.Second)
	return r
}

// testRemovedMemberCounts checks that a gang succeeds with a completed member that was deleted (sequence 22).
func testRemovedMemberCounts(t *testing.T, m *manager, ns string) {
	r := m.completeRemovedMember(t, ns)
	for _, name := range []string{"worker-0", "worker-1"} {
		r.succeedPod(r.getActivePod(name))
	}
	r.waitForPhase(lifecycle.Succeeded, 0)
}

// testRemovedMemberIsNotMissed checks that a gang fails without a completed member that was deleted, because no
// restart can include that member (sequence 23).
func testRemovedMemberIsNotMissed(t *testing.T, m *manager, ns string) {
	r := m.completeRemovedMember(t, ns)
	r.failContainer(r.getActivePod("worker-1"), 1)
	if s := r.waitForPhase(lifecycle.Failed, 0); s.FirstFailure == nil || s.FirstFailure.ExitCode != 1 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForJobFailure("train-worker")
}

// testStrangerBeforeStatus checks that a StatefulSet with the name of a member, which is created before the gang has a
// status, does not keep the gang from its restart (sequence 26).
func testStrangerBeforeStatus(t *testing.T, m *manager, ns string) {
	r := m.createGang(t, ns, newMasterAndWorkers()...)
	m.waitForServiceOwners(t, ns, "train", 2)
	m.createStranger(t, ns)
	waitForStatus(t, lifecycle.Pending, gang.ReasonMemberConflict, r.getWorkloads)
	m.runFakeKubelet(t, ns, func(p corev1.Pod) bool { return metav1.GetControllerOf(&p).Kind != "Job" })
	waitForStatus(t, lifecycle.Running, gang.ReasonMemberConflict, r.getWorkloads)
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
}

// testFailureTarget checks that a gang fails although its failed Job waits for a pod whose node confirms nothing
// (sequence 25).
func testFailureTarget(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	terminate := r.holdTermination(r.getActivePod("worker-0"))
	r.patchJob("train-worker", `{"spec":{"activeDeadlineSeconds":1}}`)
	s := r.waitForPhase(lifecycle.Failed, 0)
	if !strings.Contains(s.Message, batchv1.JobReasonDeadlineExceeded) {
		t.Errorf("the status has the message %s", s.Message)
	}
	for _, c := range r.getJob("train-worker").Status.Conditions {
		if c.Type == batchv1.JobFailed {
			t.Error("the Job failed before its pod was gone")
		}
	}
	r.waitForJobFailure("train-master")
	r.waitForPodsGone("master")
	terminate()
	r.waitForJobFailure("train-worker")
	r.checkPhaseStable(time.Second)
}

// testControllerStopped checks what the controller finds after it was stopped: a rank that was drained and exited with
// code 0 is lost (sequence 19), and the start timeout of a Job in a queue has not begun before the Job (sequence 21).
func testControllerStopped(t *testing.T, m *manager) {
	drained := m.startGang(t, m.createNamespace(t), newTrainingWorkload(3))
	before := drained.listActivePods()
	const timeout = 30 * time.Second
	m.Controller.Stop(t)
	ns := m.createNamespace(t)
	w := newTrainingWorkload(2,
		gang.AnnotationMaxRestarts, "0", gang.AnnotationMaxDisruptions, "0", gang.AnnotationStartTimeout, timeout.String())
	w.Job.Spec.Suspend = ptr.To(true)
	queued := m.createGang(t, ns, w)
	created := time.Now()
	drained.drainRank(before["worker-1"])
	time.Sleep(time.Until(created.Add(timeout + time.Second)))
	queued.resumeJob("train")
	m.waitForPods(t, ns, "train", 2)
	m.Controller.Start(t)
	queued.waitForPhase(lifecycle.Pending, 0)
	m.runFakeKubelet(t, ns, nil)
	queued.waitForPhase(lifecycle.Running, 0)
	if s := drained.waitForPhase(lifecycle.Running, 1); s.Disruptions != 1 {
		t.Errorf("the status of the drained gang is %+v", s)
	}
	drained.checkPodsReplaced(before, "1")
}

// testFailureBeforeSuspension checks that a pod that failed before a suspension uses up no restart after the gang was
// resumed (sequence 17). The Job controller leaves such a pod, because it deletes active pods only.
func testFailureBeforeSuspension(t *testing.T, m *manager) {
	r := m.startGang(t, m.createNamespace(t),
		newTrainingWorkload(3, gang.AnnotationMaxRestarts, "0", gang.AnnotationMaxDisruptions, "0"))
	for attempt := int32(1); attempt <= 2; attempt++ {
		before := r.listActivePods()
		failed := before["worker-1"]
		m.Controller.Stop(t)
		r.failPod(failed, 1)
		r.patchJob("train", `{"spec":{"suspend":true}}`)
		r.waitForPodsGone("worker")
		m.Controller.Start(t)
		r.waitForPhase(lifecycle.Suspended, 0)
		r.resumeJob("train")
		if s := r.waitForPhase(lifecycle.Running, 0); s.Attempt != attempt {
			t.Errorf("the attempt is %d, want %d", s.Attempt, attempt)
		}
		r.checkPodsReplaced(before, strconv.Itoa(int(attempt)))
		if _, err := r.Client.CoreV1().Pods(r.ns).Get(t.Context(), failed.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("the failed pod does not exist any more: %v", err)
		}
	}
}

// testJobResized checks that a gang does not restart if its user changes the size of its Job, which does not affect its
// ranks, and that a failure restarts it afterward.
func testJobResized(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2))
	time.Sleep(3 * time.Second) // pods of the same seconds never count as replaced
	r.patchJob("train", `{"spec":{"parallelism":4,"completions":4}}`)
	m.waitForPods(t, ns, "train", 4)
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPhaseStable(3 * time.Second)
	for _, size := range []int{3, 4} { // the first removes a rank and leaves the phase
		time.Sleep(3 * time.Second)
		r.patchJob("train", fmt.Sprintf(`{"spec":{"parallelism":%d,"completions":%[1]d}}`, size))
		m.waitForPods(t, ns, "train", size)
		r.waitForPhase(lifecycle.Running, 0)
		r.checkPhaseStable(3 * time.Second)
	}
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-3"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
}

// drainRank deletes a pod, whose program exits with code 0, and waits until the Job counts its rank as complete.
func (r *testGang) drainRank(p corev1.Pod) {
	r.t.Helper()
	terminate := r.holdTermination(p)
	r.deletePod(p)
	r.succeedPod(p)
	terminate()
	wait.For(r.t, "the rank to count as complete", func(context.Context) error {
		if got := r.getJob("train").Status.CompletedIndexes; got == "" {
			return errors.New("no index is complete")
		}
		return nil
	})
}

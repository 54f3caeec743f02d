package integration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// testStatefulSetRank0Succeeds checks that the success of rank 0 completes a gang of one
// StatefulSet, and that the other ranks are stopped.
func testStatefulSetRank0Succeeds(t *testing.T, m *manager, ns string) {
	w := gang.Workload{StatefulSet: newStatefulSet("train", 3)}
	w.StatefulSet.Annotations = map[string]string{gang.AnnotationSuccessPolicy: gang.SuccessPolicyRank0}
	r := m.startGang(t, ns, w)
	r.succeedContainerInPlace(r.getActivePod("worker-1"))
	r.checkPhaseStable(2 * time.Second)
	r.succeedContainerInPlace(r.getActivePod("worker-0"))
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.waitForPodsGone("worker")
	all, err := r.getWorkloads(t.Context())
	if err != nil || *all[0].StatefulSet.Spec.Replicas != 0 {
		t.Errorf("%d replicas, %v", *all[0].StatefulSet.Spec.Replicas, err)
	}
	r.checkPhaseStable(2 * time.Second)
}

// testTensorFlowWorker0Succeeds checks that the success of worker 0 completes a TensorFlow gang
// without a chief, and that its parameter servers are stopped.
func testTensorFlowWorker0Succeeds(t *testing.T, m *manager, ns string) {
	workers, servers := newMemberJob("worker", 2, "worker=2,ps=1"), newMemberJob("ps", 1, "worker=2,ps=1")
	for _, w := range []gang.Workload{workers, servers} {
		w.Meta().Labels[gang.LabelFramework] = "tensorflow"
	}
	r := m.startGang(t, ns, workers, servers)
	r.succeedPod(r.getActivePod("worker-0"))
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.waitForPodsGone("worker")
	r.waitForPodsGone("ps")
	r.checkPhaseStable(2 * time.Second)
}

// succeedContainerInPlace reports that the container of a StatefulSet's pod succeeded and was
// restarted in place, as the kubelet does.
func (r *testGang) succeedContainerInPlace(p corev1.Pod) {
	r.t.Helper()
	p = *p.DeepCopy()
	c := &p.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode:   0,
		Reason:     "Completed",
		FinishedAt: metav1.Now(),
	}
	r.patchPodStatus(p)
}

// testSuccessPolicyRole checks that the gang succeeds with the role of its success policy, and that
// the other roles are stopped.
func testSuccessPolicyRole(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers(gang.AnnotationSuccessPolicy, "worker")...)
	r.succeedPod(r.getActivePod("worker-0"))
	r.succeedPod(r.getActivePod("worker-1"))
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.waitForPodsGone("master")
	r.checkPhaseStable(2 * time.Second)
}

// testSuccessBeforeFailure checks that the gang succeeds if a rank fails because the rank that determines the
// completion has exited. The Job controller has not completed the Job of that rank then.
func testSuccessBeforeFailure(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers(gang.AnnotationSuccessPolicy, gang.SuccessPolicyRank0,
		gang.AnnotationRestartPolicy, string(gang.RestartPolicyNever))...)
	master, worker := r.getActivePod("master-0"), r.getActivePod("worker-1")
	r.succeedPod(master)
	r.failContainer(worker, 1)
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.checkPhaseStable(2 * time.Second)
}

func testCleanPodPolicyNone(t *testing.T, m *manager, ns string) {
	r := m.startGang(
		t, ns, newMasterAndWorkers(gang.AnnotationCleanPodPolicy, "none", gang.AnnotationSuccessPolicy, "rank0")...,
	)
	r.succeedPod(r.getActivePod("master-0"))
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.checkPhaseStable(2 * time.Second)
	if n := len(r.listActivePods()); n != 3 {
		t.Errorf("%d pods are left, want all 3", n)
	}
}

// testStatefulSetRunsOn checks that a gang whose StatefulSet runs on after its success stays succeeded when a rank
// fails in its second run, until a user replaces a pod.
func testStatefulSetRunsOn(t *testing.T, m *manager, ns string) {
	w := gang.Workload{StatefulSet: newStatefulSet("train", 2)}
	w.StatefulSet.Annotations = map[string]string{gang.AnnotationCleanPodPolicy: string(gang.CleanPodPolicyNone)}
	r := m.startGang(t, ns, w)
	for _, name := range []string{"worker-0", "worker-1"} {
		r.succeedContainerInPlace(r.getActivePod(name))
	}
	r.waitForPhase(lifecycle.Succeeded, 0)
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.checkPhaseStable(2 * time.Second)
	r.deletePod(r.getActivePod("worker-1"))
	r.waitForPhase(lifecycle.Running, 0)
}

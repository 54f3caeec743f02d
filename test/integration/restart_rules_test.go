package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestRestartRulesDisabled runs gangs on a cluster that has the version, but not the feature for restart rules of
// containers. A rank that fails then fails its pod.
func TestRestartRulesDisabled(t *testing.T) {
	if cluster.DefaultRelease() == cluster.OldestSupported {
		t.Skip("the oldest supported release has no restart rules")
	}
	m := &manager{installation.New(t, startCluster(t, cluster.Options{
		Nodes: cluster.NoNodes,
		FeatureGates: map[string]bool{
			"ContainerRestartRules":                false,
			"RestartAllContainersOnContainerExits": false, // depends on the other feature
		},
	}))}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Restart":     testRestartWithoutRules,
		"MaxRestarts": testMaxRestartsWithoutRules,
	})
}

func testRestartWithoutRules(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	if c := r.getJob("train").Spec.Template.Spec.Containers[0]; c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 {
		t.Fatalf("the container has the restart policy %v and rules, so the test has no meaning", c.RestartPolicy)
	}
	before := r.listActivePods()
	r.failPod(r.getActivePod("worker-1"), 3)
	s := r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	if f := s.FirstFailure; f == nil || f.Rank != 1 || f.ExitCode != 3 || f.Pod != before["worker-1"].Name {
		t.Errorf("the first failure is %+v", f)
	}
}

func testMaxRestartsWithoutRules(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2, gang.AnnotationMaxRestarts, "0"))
	r.failPod(r.getActivePod("worker-0"), 9)
	if s := r.waitForPhase(lifecycle.Failed, 0); s.FirstFailure == nil || s.FirstFailure.ExitCode != 9 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForJobFailure("train")
}

// failPod reports that the container of a pod failed, and that the pod failed with it.
func (r *testGang) failPod(p corev1.Pod, code int32) {
	r.t.Helper()
	p = copyWithFailedContainer(p, code)
	status := &p.Status.ContainerStatuses[0]
	status.RestartCount = 0
	status.State = corev1.ContainerState{Terminated: status.LastTerminationState.Terminated}
	status.LastTerminationState = corev1.ContainerState{}
	p.Status.Phase = corev1.PodFailed
	r.patchPodStatus(p)
}

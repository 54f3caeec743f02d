package integration

import (
	"testing"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestBetaFeaturesDisabled runs gangs on a cluster without any beta feature. Since Kubernetes 1.35, its API server
// drops the restart rules of containers that its version has, so a rank that fails then fails its pod.
func TestBetaFeaturesDisabled(t *testing.T) {
	m := &manager{installation.New(t, startCluster(t, cluster.Options{
		Nodes:        cluster.NoNodes,
		FeatureGates: map[string]bool{"AllBeta": false},
	}))}
	m.waitForRankAdmission(t, m.createNamespace(t))
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Restart":            testRestartWithoutRules,
		"MaxRestarts":        testMaxRestartsWithoutRules,
		"RestartStatefulSet": testRestartStatefulSet,
		"Suspended":          testSuspendAndResume,
		"Members":            func(t *testing.T, m *manager, ns string) { testMembersSucceed(t, m, ns, false) },
		"JobAdmitted":        testJobAdmitted,
		"Denied":             testJobDenied,
		"DryRun":             testDryRun,
		"StatefulSetUpdates": testStatefulSetUpdates,
		"ApplyIdempotent":    testApplyIdempotent,
		"Corpus":             testCorpus,
	})
}

func testRestartWithoutRules(t *testing.T, m *manager, ns string) {
	w := newTrainingWorkload(3)
	w.Job.Spec.BackoffLimit = ptr.To[int32](1000) // for which Rollcall adds restart rules
	r := m.startGang(t, ns, w)
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

package integration

import (
	"testing"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestOldestSupportedKubernetes runs essential tests on the oldest Kubernetes that Rollcall
// supports. The relevant differences of its Job controller and API server: a suspended Job keeps
// its start time, so its template is immutable, and a failed container fails its pod. "make
// test-oldest" runs all tests on that release.
func TestOldestSupportedKubernetes(t *testing.T) {
	m := &manager{
		installation.New(t, startCluster(t, cluster.Options{Nodes: cluster.NoNodes, Release: cluster.OldestSupported})),
	}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Job":                testRestartJob,
		"StatefulSet":        testRestartStatefulSet,
		"MasterAndWorkers":   testRestartMasterAndWorkers,
		"PodDeleted":         testRestartPodDeleted,
		"MaxRestarts":        testRestartMaxRestarts,
		"Suspended":          testSuspendAndResume,
		"SuspendedMeanwhile": testSuspendDuringRestart,
		"ManagerPolicies":    testManagerPolicies,
		"WrittenKeysPolicy":  testWrittenKeysPolicy,
	})
}

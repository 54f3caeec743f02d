package integration

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestAttackKeys attacks the keys that the controller trusts, and the credentials of the managers, on a real API
// server with the policies of the chart.
func TestAttackKeys(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithChart(t, c, []string{"--set", "permissions.orderRanks=true"})}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"ManagerPolicies":   testManagerPolicies,
		"WrittenKeysPolicy": testWrittenKeysPolicy,
		"RelabeledJob":      testAttackRelabeledJob,
		"ConfusedDeputy":    testAttackConfusedDeputy,
		"NewWorkload":       testAttackNewWorkload,
		"Credentials":       testAttackWithCredentials,
		"UnseenStatefulSet": testAttackUnseenStatefulSet,
		"Children":          testAttackChildren,
		"HostOrders":        testAttackHostOrders,
		"LegitimateUpdates": testLegitimateUpdates,
		"RandomSequences":   testRandomAttacks,
	})
}

// waitForKeysPolicy waits until the policy for the protected keys is in force.
func waitForKeysPolicy(t *testing.T, m *manager, ns string) {
	t.Helper()
	job := newJob("probe", 1)
	job.Labels, job.Spec.Suspend = nil, new(true)
	m.createJob(t, ns, job)
	requireDenied(t, map[string]attempt{"policy is in force": {keysPolicy, func(ctx context.Context) error {
		patch := []byte(`{"metadata":{"annotations":{"rollcall.training/status":"x"}}}`)
		_, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "probe", types.MergePatchType, patch,
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}}})
}

package integration

import (
	"testing"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestFloor lets gangs live through the essentials on the oldest Kubernetes that Rollcall supports. Its Job controller
// and API server differ where it matters most: a suspended Job keeps its start time, and with it its template; a failed
// container fails its pod. "make floor" runs all tests there.
func TestFloor(t *testing.T) {
	m := &manager{installation.New(t, cluster.Start(t, cluster.Options{Nodes: cluster.None, Release: cluster.Floor}))}
	m.together(t, map[string]func(*testing.T, *manager, string){
		"Job":                testRestartJob,
		"StatefulSet":        testRestartSet,
		"MasterAndWorkers":   testRestartMaster,
		"PodDeleted":         testRestartDeleted,
		"MaxRestarts":        testRestartMax,
		"Suspended":          testRestartSuspended,
		"SuspendedMeanwhile": testRestartSuspendedMeanwhile,
	})
}

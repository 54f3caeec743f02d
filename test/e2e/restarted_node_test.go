package e2e

import (
	"slices"
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestRestartedNode switches a node off and on, before Kubernetes notices. The containers are gone then, and nobody
// knows how they ended. A gang that may not restart after a failure of its program restarts.
func TestRestartedNode(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	node := s.addNode(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.sh", `[ "$ROLLCALL_ATTEMPT" != 0 ] || exec sleep 600`)
	spec := s.newPodSpec("sh", "train.sh")
	preferNode(&spec, node)
	s.createJob(t, ns, "train", 2, map[string]string{gang.AnnotationMaxRestarts: "0"}, spec)
	s.waitForGangStatus(t, ns, "train", lifecycle.Running, 0)
	start := time.Now()
	if err := s.KillNode(node); err != nil {
		t.Fatal(err)
	}
	if err := s.StartNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	status := s.waitForGangStatus(t, ns, "train", lifecycle.Succeeded, 1)
	f := status.FirstFailure
	t.Logf("succeeded %.0f s after the node was switched off: %s", time.Since(start).Seconds(), f)
	isLost := slices.Contains([]string{"Unknown", "ContainerStatusUnknown"}, f.Reason)
	if status.Restarts != 0 || !isLost || f.Node != node || f.Message == "" {
		t.Errorf("%d restarts, first failure %+v, want a container that node %s lost", status.Restarts, f, node)
	}
	s.logStatus(t, ns, "train")
}

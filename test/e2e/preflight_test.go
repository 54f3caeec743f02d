package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// TestPreflight runs the example that checks the network on three nodes, one of which has a slow link. The gang trains
// on the other nodes after one disruption.
func TestPreflight(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	s.addNode(t)
	slow := s.addNode(t)
	if err := s.SlowNode(slow, cluster.Slowness{Rate: "20mbit"}); err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	patches := append([]string{
		fmt.Sprintf(`{op: replace, path: /spec/template/spec/initContainers/0/image, value: %q}`, s.trainingImage),
		`{op: add, path: /spec/template/spec/initContainers/0/securityContext, ` +
			`value: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`,
	}, restrictedPatches...)
	start := time.Now()
	s.applyExample(t, ns, "preflight", s.trainingImage, patches...)
	status := s.waitForGangStatus(t, ns, "preflight", lifecycle.Succeeded, 1)
	f := status.FirstFailure
	t.Logf("succeeded after %.0f s; %s", time.Since(start).Seconds(), f)
	if f.Reason != failure.ReasonPreflightFailed || f.Node != slow || f.ExitCode != gang.PreflightNodeFailed {
		t.Errorf("first failure %+v, want a failed check on node %s", f, slow)
	}
	if status.Restarts != 0 || status.Disruptions != 1 || !strings.Contains(f.Message, "is slow") {
		t.Errorf("%d restarts, %d disruptions, message %q", status.Restarts, status.Disruptions, f.Message)
	}
	for _, pod := range s.listPods(t, ns, "preflight") {
		if pod.Status.Phase == corev1.PodSucceeded && pod.Spec.NodeName == slow {
			t.Errorf("the pod %s of the second attempt ran on node %s", pod.Name, slow)
		}
	}
	s.logStatus(t, ns, "preflight")
}

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// exitOnTermProgram exits with code 1 on SIGTERM, as torchrun does. In the first attempt, rank 1
// exits with code 137, as if it had been killed.
const exitOnTermProgram = `trap 'exit 1' TERM
if [ "$ROLLCALL_ATTEMPT" = 0 ] && [ "$RANK" = 1 ]; then sleep 4; exit 137; fi
i=0; while [ $i -lt 60 ]; do sleep 0.1; i=$((i+1)); done`

// TestNonRetriableExitCodes checks that only the exit code of the first failure counts. Ranks that
// terminate for a restart may exit with non-retriable codes. A podFailurePolicy with the same codes
// cannot distinguish them: it fails the Job if the Job controller observes a terminated rank before
// its pod is deleted (docs/adr/0006-restart-limits.md).
func TestNonRetriableExitCodes(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "run.sh", exitOnTermProgram)
	s.createJob(t, ns, "train", 2, map[string]string{
		gang.AnnotationNonRetriableExitCodes: "1-127",
	}, s.newPodSpec("sh", "run.sh"))
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
	j, err := s.client.BatchV1().Jobs(ns).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := lifecycle.ReadStatus(gang.Workload{Job: j})
	if got.Restarts != 1 || got.FirstFailure == nil || got.FirstFailure.ExitCode != 137 {
		t.Errorf("the gang ended after %d restarts with the first failure %v: %s",
			got.Restarts, got.FirstFailure, got.Message)
	}
}

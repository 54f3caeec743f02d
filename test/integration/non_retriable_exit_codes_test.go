package integration

import (
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// testNonRetriableExitCode checks that a gang restarts after an exit by a signal, and fails after a
// non-retriable exit code.
func testNonRetriableExitCode(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2, gang.AnnotationNonRetriableExitCodes, "1-127"))
	r.failContainer(r.getActivePod("worker-1"), 137)
	r.waitForPhase(lifecycle.Running, 1)
	r.failContainer(r.getActivePod("worker-0"), 3)
	if s := r.waitForPhase(lifecycle.Failed, 1); s.FirstFailure == nil || s.FirstFailure.ExitCode != 3 ||
		!strings.Contains(s.Message, "non-retriable") {
		t.Errorf("the status has the first failure %+v and the message %s", s.FirstFailure, s.Message)
	}
	r.waitForJobFailure("train")
	r.waitForPodsGone("worker")
}

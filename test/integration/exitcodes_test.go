package integration

import (
	"strings"
	"testing"

	"rollcall.training/gang"
)

// testRestartFinalCode: a signal is worth another try, and an error of the program is not.
func testRestartFinalCode(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(2, gang.AnnotationFinalCodes, "1-127"))
	r.falls(r.pod("worker-1"), 137)
	r.reaches(gang.Running, 1)
	r.falls(r.pod("worker-0"), 3)
	if s := r.reaches(gang.Failed, 1); s.Cause == nil || s.Cause.ExitCode != 3 || !strings.Contains(s.Message, "final") {
		t.Errorf("the status says %+v: %s", s.Cause, s.Message)
	}
	r.jobFailed("train")
	r.gone("worker")
}

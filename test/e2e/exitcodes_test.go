package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// stubborn ranks end with code 1 when they are told to stop, as torchrun does. The first
// time, rank 1 ends as if it had been killed.
const stubborn = `trap 'exit 1' TERM
if [ "$ROLLCALL_ATTEMPT" = 0 ] && [ "$RANK" = 1 ]; then sleep 4; exit 137; fi
i=0; while [ $i -lt 60 ]; do sleep 0.1; i=$((i+1)); done`

// TestRestartFinalCodes: ranks that are stopped for a restart may end with codes that would
// be final otherwise; the code of the first to fall is what counts. (A podFailurePolicy with
// the same codes cannot tell: the Job fails if its controller sees such a rank before it is
// gone, docs/adr/0017.)
func TestRestartFinalCodes(t *testing.T) {
	slow(t)
	s := here(t)
	ns := s.namespace(t)
	s.program(t, ns, "run.sh", stubborn)
	s.job(t, ns, "train", 2, map[string]string{gang.AnnotationFinalCodes: "1-127"}, s.podSpec("sh", "run.sh"))
	s.phase(t, ns, "train", gang.Succeeded)
	j, err := s.client.BatchV1().Jobs(ns).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := gang.StatusOf(gang.Workload{Job: j})
	if got.Attempt != 1 || got.Cause == nil || got.Cause.ExitCode != 137 {
		t.Errorf("the gang ended in attempt %d, after %v: %s", got.Attempt, got.Cause, got.Message)
	}
}

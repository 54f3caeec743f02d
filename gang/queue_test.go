package gang_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// TestQueue: a StatefulSet is never let go as one.
func TestQueue(t *testing.T) {
	about := metav1.ObjectMeta{Labels: map[string]string{gang.LabelQueue: "team"}}
	for name, c := range map[string]struct {
		workload gang.Workload
		want     string
	}{
		"Job":         {gang.Workload{Job: &batchv1.Job{ObjectMeta: about}}, "team"},
		"no label":    {gang.Workload{Job: &batchv1.Job{}}, ""},
		"StatefulSet": {gang.Workload{StatefulSet: &appsv1.StatefulSet{ObjectMeta: about}}, ""},
	} {
		if got := c.workload.Queue(); got != c.want || name != "StatefulSet" && gang.Observe(c.workload).Queued != (c.want != "") {
			t.Errorf("%s: queue %q, want %q", name, got, c.want)
		}
	}
}

// TestDescribeQueue: one that waits for its queue says so.
func TestDescribeQueue(t *testing.T) {
	see := sight(gang.Observation{Suspended: true, Stopped: true, Queued: true})
	s := gang.State{Phase: gang.Suspended, Attempt: 2}
	if got, want := s.Describe(gangOf, see.Roll), "Attempt 2 of 3 begins when its queue lets it"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestKept: a member that its user holds back keeps the others waiting, and one that a
// queue or Rollcall holds back does not.
func TestKept(t *testing.T) {
	ours := gang.Observation{Size: 2, Suspended: true, Stopped: true}
	for name, c := range map[string]struct {
		other gang.Observation
		want  bool
	}{
		"Rollcall": {ours, false},
		"a queue":  {gang.Observation{Size: 2, Suspended: true, Queued: true}, false},
		"its user": {gang.Observation{Size: 2, Suspended: true}, true},
		"nobody":   {gang.Observation{Size: 2}, false},
	} {
		if got := among(ours, c.other).Roll.Kept(); got != c.want {
			t.Errorf("%s holds the other back: kept is %v, want %v", name, got, c.want)
		}
	}
}

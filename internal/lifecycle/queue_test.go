package lifecycle_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestQueueName checks that a StatefulSet has no queue, because Kueue queues its pods separately.
func TestQueueName(t *testing.T) {
	about := metav1.ObjectMeta{Labels: map[string]string{gang.LabelQueueName: "team"}}
	for name, c := range map[string]struct {
		workload gang.Workload
		want     string
	}{
		"Job with a queue":    {workload: gang.Workload{Job: &batchv1.Job{ObjectMeta: about}}, want: "team"},
		"Job without a queue": {workload: gang.Workload{Job: &batchv1.Job{}}},
		"StatefulSet":         {workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{ObjectMeta: about}}},
	} {
		got, managed := c.workload.QueueName(), lifecycle.Observe(c.workload).ManagedByQueue
		if got != c.want || managed != (c.want != "") {
			t.Errorf("%s: queue %q, managed %v; want %q", name, got, managed, c.want)
		}
	}
}

// TestDescribeAwaitingQueue checks the message of a gang that its queue has to resume.
func TestDescribeAwaitingQueue(t *testing.T) {
	snapshot := newSnapshot(lifecycle.Observation{Suspended: true, SuspendedByRollcall: true, ManagedByQueue: true})
	s := lifecycle.State{Phase: lifecycle.Suspended, Restarts: 2}
	want := "Restart 2 of 3 waits for admission by its queue"
	if got := s.Describe(defaultPolicies, snapshot.Members); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// TestAnySuspendedByUser checks that a member counts only if its user, and not a queue or
// Rollcall, suspended it.
func TestAnySuspendedByUser(t *testing.T) {
	byRollcall := lifecycle.Observation{Size: 2, Suspended: true, SuspendedByRollcall: true}
	for name, c := range map[string]struct {
		other lifecycle.Observation
		want  bool
	}{
		"Rollcall suspended both members": {other: byRollcall},
		"queue suspended the other member": {
			other: lifecycle.Observation{Size: 2, Suspended: true, ManagedByQueue: true},
		},
		"user suspended the other member": {other: lifecycle.Observation{Size: 2, Suspended: true}, want: true},
		"other member is not suspended":   {other: lifecycle.Observation{Size: 2}},
	} {
		if got := newTwoMemberSnapshot(byRollcall, c.other).Members.AnySuspendedByUser(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

package controller

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// TestStuckPodReports checks that the reports of stuck pods do not cost a write for each pod, and that the last
// stuck pod is reported in the end. From the tenth second on, another pod is stuck in each second.
func TestStuckPodReports(t *testing.T) {
	const slowPods, maxWrites = 600, 8
	w := gang.Workload{Job: &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", "")}}
	next := lifecycle.State{Phase: lifecycle.Restarting, LastTransitionTime: testStartTime}
	write := func(s lifecycle.Status) {
		s.State = next
		if err := s.WriteTo(w); err != nil {
			t.Fatal(err)
		}
	}
	write(lifecycle.Status{Reason: next.Phase.Reason(), Message: "The gang restarts"})
	clock := clocktesting.NewFakePassiveClock(testStartTime)
	r := &Reconciler{Clock: clock}
	writes, last := 0, ""
	report := func(pod int) time.Duration {
		g := &observedGang{pass: r.newPass(trainRequest)}
		g.Members = []member{{Member: roster.Member{Workload: w}}}
		stuck := lifecycle.Status{Reason: gang.ReasonPodStuckTerminating, Message: fmt.Sprintf("Pod %d is stuck", pod)}
		got := r.limitStuckPodReports(g, next, stuck)
		if got.Reason != stuck.Reason {
			t.Fatalf("pod %d: reason %q", pod, got.Reason)
		}
		if got.Message != last {
			writes, last = writes+1, got.Message
			write(got)
		}
		return g.pass.requeueDelay
	}
	var delay time.Duration
	for pod := range slowPods {
		clock.SetTime(testStartTime.Add(time.Duration(pod+10) * time.Second))
		delay = report(pod)
	}
	if writes < 2 || writes > maxWrites {
		t.Errorf("%d reports of %d stuck pods, want 2 to %d", writes, slowPods, maxWrites)
	}
	if delay <= 0 {
		t.Fatal("no pass is scheduled for the next report")
	}
	clock.SetTime(clock.Now().Add(delay))
	if report(slowPods - 1); last != fmt.Sprintf("Pod %d is stuck", slowPods-1) {
		t.Errorf("the last report is %q", last)
	}
	next.LastTransitionTime = clock.Now().Add(time.Second) // a later phase does not wait for an earlier phase
	clock.SetTime(next.LastTransitionTime.Add(10 * time.Second))
	if report(slowPods); last != fmt.Sprintf("Pod %d is stuck", slowPods) {
		t.Errorf("the first report of the next phase is %q", last)
	}
	if none := r.limitStuckPodReports(&observedGang{
		pass: r.newPass(trainRequest), Roster: roster.Roster[member]{Members: []member{{Member: roster.Member{Workload: w}}}},
	}, next, lifecycle.Status{}); none.Reason != "" {
		t.Errorf("a gang without a stuck pod has the reason %s", none.Reason)
	}
}

// TestStuckPodWhileOthersTerminate checks that no pod is reported as stuck while the number of terminating pods
// changes, and that the last of them is reported.
func TestStuckPodWhileOthersTerminate(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(testStartTime)
	r := &Reconciler{Clock: clock}
	next := lifecycle.State{Phase: lifecycle.Restarting, LastTransitionTime: testStartTime}
	w := gang.Workload{Job: &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", "")}}
	stuck := lifecycle.Status{Reason: gang.ReasonPodStuckTerminating, Message: "Pod 0 is stuck"}
	report := func(terminating int) (lifecycle.Status, time.Duration) {
		g := &observedGang{
			pass:     r.newPass(trainRequest),
			Roster:   roster.Roster[member]{Members: []member{{Member: roster.Member{Workload: w}}}},
			observed: lifecycle.Observed{TerminatingPods: terminating},
		}
		return r.limitStuckPodReports(g, next, stuck), g.pass.requeueDelay
	}
	r.sessions.forRequest(trainRequest).recordTerminatingPods(1000, testStartTime)
	for terminating := 999; terminating > 0; terminating-- {
		clock.SetTime(clock.Now().Add(time.Second))
		if got, delay := report(terminating); got.Reason != "" || delay != lifecycle.StuckPodGracePeriod {
			t.Fatalf("%d pods terminate: reason %q, and the next pass after %s", terminating, got.Reason, delay)
		}
	}
	clock.SetTime(clock.Now().Add(lifecycle.StuckPodGracePeriod))
	if got, _ := report(1); got.Message != stuck.Message {
		t.Errorf("after the grace period, the status is %+v", got)
	}
}

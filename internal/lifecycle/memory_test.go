package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestUnwrittenDisruption checks that a disruption is kept until its restart is written, and not longer.
func TestUnwrittenDisruption(t *testing.T) {
	disruption := &failure.Failure{Rank: 0, Pod: "train-0", Reason: failure.ReasonPodDeleted, Time: podtest.At(5)}
	running := State{
		Phase: Running, Bookkeeping: Bookkeeping{Attempt: 1, AttemptStartTime: podtest.At(0)},
	}
	restarting, suspended, nextRun := running, running, running
	restarting.Phase, restarting.Attempt, restarting.FirstFailure = Restarting, 2, disruption
	repeated := restarting
	restarting.Disruptions = 1
	suspended.Attempt, nextRun.AttemptStartTime = 2, podtest.At(60)
	exited := restarting
	exited.FirstFailure = &failure.Failure{Rank: 0, Pod: "train-0", Reason: "Error", Time: podtest.At(5)}
	evicted := exited
	evicted.FirstFailure = &failure.Failure{Rank: 0, Pod: "train-0", Reason: "Evicted", Time: podtest.At(5)}
	for name, c := range map[string]struct {
		decided, state State
		want           *failure.Failure
	}{
		"the pod exceeded its local storage": {
			decided: evicted, state: running, want: evicted.FirstFailure,
		},
		"the write was rejected":                                 {decided: restarting, state: running, want: disruption},
		"the restart was written":                                {decided: restarting, state: restarting},
		"the attempt was suspended":                              {decided: restarting, state: suspended},
		"the gang runs again":                                    {decided: restarting, state: nextRun},
		"the rank failed, which its pod still shows":             {decided: exited, state: running},
		"the start was to be repeated for an earlier disruption": {decided: repeated, state: running},
		"nothing was decided":                                    {decided: running, state: running},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			m.RecordDecision(running, c.decided)
			if got := m.decision.unwrittenDisruption(c.state); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestRecordFailedPodsBeforeResume checks that the failed pods of a suspended gang are recorded until its last member
// is resumed. Later failures are of the attempt that starts.
func TestRecordFailedPodsBeforeResume(t *testing.T) {
	var m Memory
	suspended := MemberState{Exists: true, MinReady: 1, Observed: Observation{Size: 1, Suspended: true}}
	running := MemberState{Exists: true, MinReady: 1, Observed: Observation{Size: 1, FailedPods: 1}}
	for _, c := range []struct {
		name     string
		phase    Phase
		snapshot Snapshot
		want     *int32
	}{
		{
			name: "pods terminate", phase: Suspended,
			snapshot: Snapshot{HasPods: true, Members: Members{suspended, suspended}},
		},
		{
			name: "no pod is left", phase: Suspended,
			snapshot: Snapshot{AllPodsTerminated: true, Members: Members{suspended, suspended}}, want: ptr.To[int32](0),
		},
		{
			name: "one member runs", phase: Suspended,
			snapshot: Snapshot{HasPods: true, Members: Members{running, suspended}}, want: ptr.To[int32](1),
		},
		{
			name: "all members run", phase: Suspended,
			snapshot: Snapshot{HasPods: true, Members: Members{running, running}}, want: ptr.To[int32](1),
		},
		{
			name: "the attempt starts", phase: Pending,
			snapshot: Snapshot{HasPods: true, Members: Members{running, running}},
		},
	} {
		got := m.recordFailedPodsBeforeResume(State{Phase: c.phase}, c.snapshot)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestConfirmRepeatedStart checks that the starts of attempts are repeated with a back-off that grows with each
// repetition, and that a restart for another incident does not wait for it.
func TestConfirmRepeatedStart(t *testing.T) {
	disruption := &failure.Failure{Rank: 0, Pod: "train-0", Reason: failure.ReasonPodDeleted, Time: podtest.At(0)}
	pending := State{
		Phase: Pending, Disruptions: 1, LastRestartTime: podtest.At(0), FirstFailure: disruption,
		Bookkeeping: Bookkeeping{Attempt: 1, DisruptionStreak: 1, AttemptStartTime: podtest.At(1)},
	}
	running := pending
	running.Phase = Running
	for name, c := range map[string]struct {
		state State
		// repetitions is the number of repetitions before the decision.
		repetitions int
		isOther     bool
		seconds     int
		want        time.Duration
	}{
		"the first repetition has no delay":           {state: pending, seconds: 2},
		"the second waits for 10 seconds":             {state: pending, repetitions: 1, seconds: 2, want: 10 * time.Second},
		"the third waits for 20 seconds":              {state: pending, repetitions: 2, seconds: 2, want: 20 * time.Second},
		"the tenth waits for the maximum":             {state: pending, repetitions: 9, seconds: 2, want: maxBackoff},
		"a long attempt ends the streak":              {state: running, repetitions: 1, seconds: 600},
		"a restart for another incident has no delay": {state: pending, repetitions: 2, isOther: true, seconds: 2},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, s := Snapshot{Now: podtest.At(c.seconds)}, c.state
			for range c.repetitions {
				s = s.repeatStart(snapshot, disruption)
				s.Phase = Pending
			}
			next := s.repeatStart(snapshot, disruption)
			if c.isOther {
				next.Disruptions++
			}
			var m Memory
			if delay, _ := m.Confirm(s, next, snapshot); delay != c.want {
				t.Errorf("delay %s, want %s", delay, c.want)
			}
		})
	}
}

// TestConfirmUnobservedFailure checks that failed pods that nobody observed do not count while they may be among the
// pods of a stale cache. The gang has three ranks.
func TestConfirmUnobservedFailure(t *testing.T) {
	for name, c := range map[string]struct {
		failed, originals, uncounted int32
		failure                      *failure.Failure
		isStarting                   bool
		want                         time.Duration
	}{
		"another pod replaced the failed pod": {failed: 1, originals: 2},
		"a pod failed before all ranks were ready": {
			failed: 1, originals: 2, isStarting: true, want: maxStaleCacheDelay,
		},
		"the failed pod seems to run":         {failed: 1, originals: 3, want: maxStaleCacheDelay},
		"one of two failed pods seems to run": {failed: 2, originals: 2, want: maxStaleCacheDelay},
		"all pods were replaced":              {failed: 3},
		"the Job has yet to count a pod that failed": {
			failed: 1, uncounted: 1, failure: &failure.Failure{}, want: maxStaleCacheDelay,
		},
		"one of three failed pods seems to run, and the Job has yet to count the others": {
			failed: 3, originals: 1, uncounted: 2, failure: &failure.Failure{}, want: maxStaleCacheDelay,
		},
		"the Job counts more pods than those that failed": {
			failed: 3, uncounted: 1, failure: &failure.Failure{}, want: maxStaleCacheDelay,
		},
		"one of three ranks failed, and the others have no pods": {failed: 2, uncounted: 1, failure: &failure.Failure{}},
		"all pods failed, and so may their replacements have that the cache does not contain yet": {
			failed: 6, uncounted: 3, failure: &failure.Failure{}, want: maxStaleCacheDelay,
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{
				Now: podtest.At(30), JobRanks: 3, OriginalPods: c.originals, UncountedFailures: c.uncounted,
				ObservedFailures: c.uncounted, FirstFailure: c.failure,
				Members: Members{{Observed: Observation{FailedPods: c.failed}}},
			}
			last := State{Phase: Running}
			if c.isStarting {
				last.Phase = Pending
			}
			next := last.enterRestarting(snapshot)
			next.FirstFailure = snapshot.newFailure(failure.ReasonUnobserved, "")
			var m Memory
			if delay, _ := m.Confirm(last, next, snapshot); delay != c.want {
				t.Errorf("delay %s, want %s", delay, c.want)
			}
		})
	}
}

// TestConfirmCatchingUpCache checks that the wait for a stale cache starts again when it contains more failed pods.
func TestConfirmCatchingUpCache(t *testing.T) {
	running := State{Phase: Running}
	var m Memory
	for _, c := range []struct {
		seconds          int
		failed, observed int32
		want             time.Duration
	}{
		{seconds: 10, failed: 3, want: maxStaleCacheDelay},
		{seconds: 30, failed: 3, want: 10 * time.Second},
		{seconds: 35, failed: 6, observed: 3, want: maxStaleCacheDelay},
		{seconds: 60, failed: 6, observed: 3, want: 5 * time.Second},
		{seconds: 65, failed: 6, observed: 3},
	} {
		snapshot := Snapshot{
			Now: podtest.At(c.seconds), JobRanks: 3, OriginalPods: 3, ObservedFailures: c.observed,
			Members: Members{{Observed: Observation{FailedPods: c.failed}}},
		}
		if c.observed > 0 {
			snapshot.FirstFailure = &failure.Failure{}
		}
		next := running.enterRestarting(snapshot)
		next.FirstFailure = snapshot.newFailure(failure.ReasonUnobserved, "")
		if delay, _ := m.Confirm(running, next, snapshot); delay != c.want {
			t.Errorf("after %d s: delay %s, want %s", c.seconds, delay, c.want)
		}
	}
}

// TestConfirmLostRank checks that a rank that completed without a pod does not count as lost while the cache of the
// pods may be behind that of the Jobs.
func TestConfirmLostRank(t *testing.T) {
	for name, c := range map[string]struct {
		state State
		want  time.Duration
	}{
		"its pod may be missing in the cache":         {state: State{Phase: Pending}, want: maxStaleCacheDelay},
		"the cache contained all pods of the attempt": {state: State{Phase: Running}},
		"a later attempt is repeated with a back-off": {state: State{Phase: Pending, Bookkeeping: Bookkeeping{Attempt: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Now: podtest.At(30)}
			next := c.state.enterRestarting(snapshot)
			next.FirstFailure = snapshot.newFailure(failure.ReasonRankLost, "")
			var m Memory
			if delay, _ := m.Confirm(c.state, next, snapshot); delay != c.want {
				t.Errorf("delay %s, want %s", delay, c.want)
			}
		})
	}
}

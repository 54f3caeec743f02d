package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// TestSecondsCause checks what the time of an attempt counts as when it ends, by the state after which the gang is
// read.
func TestSecondsCause(t *testing.T) {
	disruption := &failure.Failure{Reason: failure.ReasonPodDeleted}
	ran := lifecycle.Seconds{Starting: 10, Ran: 100}
	for name, c := range map[string]struct {
		state lifecycle.State
		want  lifecycle.Seconds
	}{
		"a gang without a status has started since its creation": {
			state: lifecycle.State{},
			want:  lifecycle.Seconds{Starting: 60},
		},
		"the start of an attempt after a restart is part of the restart": {
			state: lifecycle.State{Phase: lifecycle.Pending, Bookkeeping: lifecycle.Bookkeeping{FollowsRestart: true}},
			want:  lifecycle.Seconds{Restarting: 60},
		},
		"a running gang of which a rank is not ready": {
			state: lifecycle.State{Phase: lifecycle.Starting, Bookkeeping: lifecycle.Bookkeeping{StartCompleted: true}},
			want:  lifecycle.Seconds{Restarting: 60},
		},
		"the time before a lapse is part of the attempt": {
			state: lifecycle.State{Phase: lifecycle.Running, Seconds: ran},
			want:  lifecycle.Seconds{Starting: 10, Ran: 160},
		},
		"a restart after a failure": {
			state: lifecycle.State{Phase: lifecycle.Restarting, Seconds: ran, FirstFailure: &failure.Failure{Reason: "Error"}},
			want:  lifecycle.Seconds{Starting: 10, Restarting: 60, RanBeforeFailure: 100},
		},
		"a restart after a disruption": {
			state: lifecycle.State{Phase: lifecycle.Restarting, Seconds: ran, FirstFailure: disruption},
			want:  lifecycle.Seconds{Starting: 10, Restarting: 60, RanBeforeDisruption: 100},
		},
		"a suspended gang": {
			state: lifecycle.State{Phase: lifecycle.Suspended, Seconds: lifecycle.Seconds{RanBeforeSuspension: 100}},
			want:  lifecycle.Seconds{Suspended: 60, RanBeforeSuspension: 100},
		},
		"a gang that has finished counts no more": {
			state: lifecycle.State{Phase: lifecycle.Succeeded, Seconds: ran},
			want:  ran,
		},
		"a status of another hand": {
			state: lifecycle.State{
				Phase: lifecycle.Running, Seconds: lifecycle.Seconds{Ran: -1 << 63, Starting: 1<<63 - 1},
			},
			want: lifecycle.Seconds{Ran: 60, Starting: 100 * 366 * 24 * 3600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.AttemptStartTime = podtest.CreationTime
			if c.state.Phase != "" {
				c.state.LastTransitionTime = podtest.CreationTime
			}
			read := roundTrip(t, c.state)
			if diff := cmp.Diff(c.want, read.SecondsAt(podtest.CreationTime.Add(time.Minute))); diff != "" {
				t.Errorf("seconds (-want, +got):\n%s", diff)
			}
			back := read.SecondsAt(podtest.CreationTime.Add(-time.Minute)).Total()
			if want := read.Seconds.Total(); back != want {
				t.Errorf("%d seconds before the transition, want %d", back, want)
			}
		})
	}
}

// roundTrip returns a state as the next manager reads it.
func roundTrip(t *testing.T, state lifecycle.State) lifecycle.State {
	t.Helper()
	text, err := lifecycle.Status{State: state}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	job.Annotations = map[string]string{gang.AnnotationStatus: text}
	return lifecycle.ReadStatus(gang.Workload{Job: job}).State
}

// TestSecondsOfAttempts runs a gang through a failure, an eviction by its queue, and its success.
func TestSecondsOfAttempts(t *testing.T) {
	state := lifecycle.State{Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.CreationTime}}
	step := func(at time.Duration, o lifecycle.Observation, options ...func(*lifecycle.Snapshot)) {
		o.Size = 2
		s := lifecycle.Snapshot{Now: podtest.CreationTime.Add(at), Members: lifecycle.NewSingleMember(o), HasPods: true}
		for _, option := range options {
			option(&s)
		}
		state = roundTrip(t, state).Next(defaultPolicies, s)
	}
	ready := lifecycle.Observation{ReadyPods: 2, ActivePods: 2}
	step(10*time.Second, ready)
	step(110*time.Second, ready, func(s *lifecycle.Snapshot) {
		s.FirstFailure = &failure.Failure{Reason: "Error", Container: "trainer", ExitCode: 1}
	})
	step(115*time.Second, lifecycle.Observation{Suspended: true, SuspendedByRollcall: true}, withAllPodsTerminated)
	step(120*time.Second, ready)
	step(320*time.Second, lifecycle.Observation{Suspended: true})
	step(620*time.Second, lifecycle.Observation{})
	step(650*time.Second, ready)
	step(1650*time.Second, lifecycle.Observation{Complete: true})
	want := lifecycle.Seconds{
		Starting: 40, Ran: 1000, Suspended: 300, Restarting: 10, RanBeforeFailure: 100, RanBeforeSuspension: 200,
	}
	if diff := cmp.Diff(want, state.Seconds); diff != "" || state.Phase != lifecycle.Succeeded {
		t.Errorf("seconds of a gang that %s (-want, +got):\n%s", state.Phase, diff)
	}
	if state.Attempt != 2 {
		t.Errorf("after one restart and one eviction, the number of the attempt is %d", state.Attempt)
	}
}

// TestSecondsOfLapse checks that the time in which a rank was not ready any more counts as part of the restart, also
// after the failure that follows in the first attempt.
func TestSecondsOfLapse(t *testing.T) {
	state := lifecycle.State{Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.CreationTime}}
	step := func(at time.Duration, readyPods int32, first *failure.Failure) {
		o := lifecycle.Observation{Size: 2, ReadyPods: readyPods, ActivePods: readyPods}
		state = roundTrip(t, state).Next(defaultPolicies, lifecycle.Snapshot{
			Now: podtest.CreationTime.Add(at), Members: lifecycle.NewSingleMember(o), HasPods: true, FirstFailure: first,
		})
	}
	step(10*time.Second, 2, nil)
	step(60*time.Second, 1, nil)
	step(100*time.Second, 1, &failure.Failure{Reason: "Error", Container: "trainer", ExitCode: 1})
	want := lifecycle.Seconds{Starting: 10, Ran: 50, Restarting: 40}
	if diff := cmp.Diff(want, state.Seconds); diff != "" || state.Phase != lifecycle.Restarting {
		t.Errorf("seconds of a gang in the phase %s (-want, +got):\n%s", state.Phase, diff)
	}
}

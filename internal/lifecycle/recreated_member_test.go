package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// newIdentifiedMembers returns a master and a worker of which both run, with these UIDs. An empty UID is
// a missing member.
func newIdentifiedMembers(uids ...types.UID) lifecycle.Members {
	var out lifecycle.Members
	for i, uid := range uids {
		out = append(out, lifecycle.MemberState{
			Member:   gang.Member{WorkloadName: []string{"train-master", "train-worker"}[i], Size: 1},
			Exists:   uid != "",
			MinReady: 1,
			Observed: lifecycle.Observation{UID: uid, Size: 1, ReadyPods: 1},
		})
	}
	return out
}

// completeFirst returns members of which the first is a complete Job, which does not complete the gang.
func completeFirst(uids ...types.UID) lifecycle.Members {
	out := newIdentifiedMembers(uids...)
	out[0].Observed.Complete, out[0].Observed.ReadyPods = true, 0
	return out
}

// TestMemberRecreated checks what a gang does with a member that its state does not record.
func TestMemberRecreated(t *testing.T) {
	newIdentifiedState := func(phase lifecycle.Phase) lifecycle.State {
		return lifecycle.State{Phase: phase, Bookkeeping: lifecycle.Bookkeeping{
			AttemptStartTime: podtest.At(0), MemberUIDs: []types.UID{"m", "w"}, FailedPodsBaseline: 3,
		}}
	}
	wasRunning := newIdentifiedState(lifecycle.Pending)
	wasRunning.StartCompleted = true
	laterAttempt := newIdentifiedState(lifecycle.Pending)
	laterAttempt.Attempt = 1
	failed := newIdentifiedState(lifecycle.Failed)
	failed.Restarts, failed.FirstFailure = 3, rankFailure
	never, pod := defaultPolicies, defaultPolicies
	never.RestartPolicy, pod.RestartPolicy = gang.RestartPolicyNever, gang.RestartPolicyPod
	for name, c := range map[string]struct {
		state        lifecycle.State
		policies     gang.RestartRules
		members      lifecycle.Members
		failure      *failure.Failure
		wantPhase    lifecycle.Phase
		wantRestarts int32
		wantReason   string
		wantUIDs     []types.UID
	}{
		"same members keep the phase": {
			state: newIdentifiedState(lifecycle.Running), policies: defaultPolicies, members: newIdentifiedMembers("m", "w"),
			wantPhase: lifecycle.Running, wantUIDs: []types.UID{"m", "w"},
		},
		"recreated member restarts a running gang": {
			state: newIdentifiedState(lifecycle.Running), policies: defaultPolicies, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Restarting, wantReason: failure.ReasonMemberRecreated,
			wantUIDs: []types.UID{"m", "w2"},
		},
		"deleted member does not restart the gang before it is recreated": {
			state: newIdentifiedState(lifecycle.Running), policies: defaultPolicies, members: newIdentifiedMembers("m", ""),
			wantPhase: lifecycle.Pending, wantUIDs: []types.UID{"m", "w"},
		},
		"member that is recreated later restarts the gang": {
			state: wasRunning, policies: defaultPolicies, members: newIdentifiedMembers("m2", "w"),
			wantPhase: lifecycle.Restarting, wantReason: failure.ReasonMemberRecreated,
			wantUIDs: []types.UID{"m2", "w"},
		},
		"recreated member joins a gang that has not started": {
			state: newIdentifiedState(lifecycle.Pending), policies: defaultPolicies, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Running, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member of a gang that has not started is why a peer failed": {
			state: newIdentifiedState(lifecycle.Pending), policies: defaultPolicies, members: newIdentifiedMembers("m", "w2"),
			failure: rankFailure, wantPhase: lifecycle.Restarting, wantReason: failure.ReasonMemberRecreated,
			wantUIDs: []types.UID{"m", "w2"},
		},
		"deleted member of a gang that has not started is why a peer failed": {
			state: newIdentifiedState(lifecycle.Pending), policies: defaultPolicies, members: newIdentifiedMembers("m", ""),
			failure: rankFailure, wantPhase: lifecycle.Restarting, wantReason: failure.ReasonMemberDeleted,
			wantUIDs: []types.UID{"m", "w"},
		},
		"recreated member of a later attempt repeats its start": {
			state: laterAttempt, policies: defaultPolicies, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Restarting, wantReason: failure.ReasonMemberRecreated, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member of a later attempt does not fail a gang that never restarts": {
			state: laterAttempt, policies: never, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Running, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member fails a gang that never restarts": {
			state: newIdentifiedState(lifecycle.Running), policies: never, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Failed, wantReason: failure.ReasonMemberRecreated, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member joins a gang whose workloads restart their pods": {
			state: newIdentifiedState(lifecycle.Running), policies: pod, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Running, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member joins a gang that cannot restart because a Job is complete": {
			state: newIdentifiedState(lifecycle.Running), policies: defaultPolicies, members: completeFirst("m", "w2"),
			wantPhase: lifecycle.Pending, wantUIDs: []types.UID{"m", "w2"},
		},
		"recreated member of a gang that failed starts a new run": {
			state: failed, policies: defaultPolicies, members: newIdentifiedMembers("m", "w2"),
			wantPhase: lifecycle.Running, wantUIDs: []types.UID{"m", "w2"},
		},
		"gang that failed stays failed without a new member": {
			state: failed, policies: defaultPolicies, members: newIdentifiedMembers("m", "w"),
			wantPhase: lifecycle.Failed, wantRestarts: 3, wantReason: "Error", wantUIDs: []types.UID{"m", "w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := lifecycle.Snapshot{Members: c.members, FirstFailure: c.failure, Now: podtest.At(20)}
			got := c.state.Next(c.policies, snapshot)
			reason := ""
			if got.FirstFailure != nil {
				reason = got.FirstFailure.Reason
			}
			if got.Phase != c.wantPhase || got.Restarts != c.wantRestarts || reason != c.wantReason {
				t.Errorf("phase %s, %d restarts, failure %q", got.Phase, got.Restarts, reason)
			}
			if diff := cmp.Diff(c.wantUIDs, got.MemberUIDs); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			again := got.Next(c.policies, snapshot)
			if again.Restarts != got.Restarts || again.Phase == lifecycle.Restarting && got.Phase != lifecycle.Restarting {
				t.Errorf("a second pass decides %s with %d restarts", again.Phase, again.Restarts)
			}
		})
	}
}

// TestFailedPodsOfRecreatedMember checks that failed pods of a deleted member do not hide those of the
// member that replaces it.
func TestFailedPodsOfRecreatedMember(t *testing.T) {
	members := newIdentifiedMembers("m", "w2")
	members[0].Observed.FailedPods, members[1].Observed.FailedPods = 1, 1
	state := lifecycle.State{Phase: lifecycle.Pending, Bookkeeping: lifecycle.Bookkeeping{
		AttemptStartTime: podtest.At(0), MemberUIDs: []types.UID{"m", "w"},
		FailedPodsBaseline: 3, // 1 of m, and 2 of w
	}}
	got := state.Next(defaultPolicies, lifecycle.Snapshot{Members: members, Now: podtest.At(20)})
	if got.Phase != lifecycle.Restarting || got.FirstFailure.Reason != failure.ReasonUnobserved {
		t.Errorf("phase %s, failure %v", got.Phase, got.FirstFailure)
	}
}

// TestRemainingBackoff checks that a time that Rollcall did not write does not delay a restart forever.
func TestRemainingBackoff(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, time.Minute: time.Minute, 5 * time.Minute: 5 * time.Minute, time.Hour: 0,
	} {
		s := lifecycle.State{Phase: lifecycle.Restarting, NextRestartTime: podtest.At(0).Add(delay)}
		if got := s.RemainingBackoff(podtest.At(0)); got != want {
			t.Errorf("%s before the next restart: %s, want %s", delay, got, want)
		}
	}
}

// TestReadStatusBounds checks that a status that Rollcall did not write has no effect beyond what Rollcall
// could have written.
func TestReadStatusBounds(t *testing.T) {
	long := `{"version":1,"phase":"Running","restarts":2,"message":"` + strings.Repeat("x", 80*1024) + `"}`
	for name, c := range map[string]struct {
		annotation   string
		wantPhase    lifecycle.Phase
		wantRestarts int32
	}{
		"status of Rollcall": {
			annotation:   `{"version":1,"phase":"Running","restarts":2,"internal":{"memberUIDs":["a","own"]}}`,
			wantPhase:    lifecycle.Running,
			wantRestarts: 2,
		},
		"status of another object": {
			annotation: `{"version":1,"phase":"Running","restarts":2,"internal":{"memberUIDs":["a","b"]}}`,
		},
		"negative number of restarts": {
			annotation: `{"version":1,"phase":"Running","restarts":-1000000}`,
			wantPhase:  lifecycle.Running,
		},
		"more restarts than the maximum": {
			annotation:   `{"version":1,"phase":"Running","restarts":2000000000}`,
			wantPhase:    lifecycle.Running,
			wantRestarts: gang.MaxRestarts,
		},
		"annotation that is too long": {annotation: long},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				UID: "own", Annotations: map[string]string{gang.AnnotationStatus: c.annotation},
			}}
			got := lifecycle.ReadStatus(gang.Workload{Job: job})
			if got.Phase != c.wantPhase || got.Restarts != c.wantRestarts {
				t.Errorf("phase %q, %d restarts", got.Phase, got.Restarts)
			}
		})
	}
}

// TestEncodeBounds checks that a status that Rollcall writes can be read.
func TestEncodeBounds(t *testing.T) {
	s := lifecycle.Status{Message: strings.Repeat("<", 100_000), State: lifecycle.State{Phase: lifecycle.Pending}}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationStatus: text}}}
	if got := lifecycle.ReadStatus(gang.Workload{Job: job}); got.Phase != lifecycle.Pending {
		t.Errorf("a status of %d bytes cannot be read", len(text))
	}
}

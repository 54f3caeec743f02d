package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// TestDeletedMemberIsComplete checks that a Job that completed and was deleted by its time to live still counts.
func TestDeletedMemberIsComplete(t *testing.T) {
	completed := map[string]time.Time{"train-a": afterGangStart(60)}
	running := lifecycle.State{Phase: lifecycle.Running, Bookkeeping: lifecycle.Bookkeeping{
		AttemptStartTime: afterGangStart(0), CompletedMembers: completed,
	}}
	ready := lifecycle.Observation{Size: 2, ReadyPods: 2, ActivePods: 2}
	complete := lifecycle.Observation{Size: 2, Complete: true, FinishTime: afterGangStart(90)}
	failed := &failure.Failure{Rank: 3, Container: "trainer", Reason: "Error", ExitCode: 1, Time: afterGangStart(90)}
	for name, c := range map[string]struct {
		a, b          lifecycle.MemberState
		failure       *failure.Failure
		wantPhase     lifecycle.Phase
		wantCompleted map[string]time.Time
	}{
		"the other member runs": {
			a: newMissingMember("a", 2), b: newMemberState("b", ready),
			wantPhase: lifecycle.Running, wantCompleted: completed,
		},
		"the other member completes": {
			a: newMissingMember("a", 2), b: newMemberState("b", complete),
			wantPhase: lifecycle.Succeeded,
		},
		"the other member fails, and the gang cannot restart": {
			a: newMissingMember("a", 2), b: newMemberState("b", ready), failure: failed,
			wantPhase: lifecycle.Failed,
		},
		"the member was recreated": {
			a: newMemberState("a", ready), b: newMemberState("b", ready),
			wantPhase: lifecycle.Running,
		},
		"another member completes": {
			a: newMissingMember("a", 2), b: newMemberState("b", complete), failure: failed,
			wantPhase: lifecycle.Succeeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			members := lifecycle.Members{c.a, c.b}.RestoreCompleted(running.CompletedMembers)
			got := running.Next(defaultPolicies, lifecycle.Snapshot{
				Members: members, FirstFailure: c.failure, Now: afterGangStart(100),
			})
			if got.Phase != c.wantPhase || len(members.Missing()) > 0 {
				t.Errorf("phase %s, want %s; missing %v", got.Phase, c.wantPhase, members.Missing())
			}
			if diff := cmp.Diff(c.wantCompleted, got.CompletedMembers); diff != "" {
				t.Errorf("completed members (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestoreRules checks that the annotations of a member with rank 0 hold after its Job was deleted.
func TestRestoreRules(t *testing.T) {
	rules := gang.RestartRules{RestartPolicy: gang.RestartPolicyNever, SuccessPolicy: gang.SuccessPolicyAll}
	running := lifecycle.State{Phase: lifecycle.Running, Bookkeeping: lifecycle.Bookkeeping{
		AttemptStartTime: afterGangStart(0), JobStartTime: afterGangStart(0),
	}}
	complete := lifecycle.Observation{Size: 2, Complete: true, FinishTime: afterGangStart(90)}
	ready := lifecycle.Observation{Size: 2, ReadyPods: 2, ActivePods: 2}
	state := running.Next(rules, lifecycle.Snapshot{
		Members: lifecycle.Members{newMemberState("a", complete), newMemberState("b", ready)}, Now: afterGangStart(100),
	})
	worker := gang.Gang{RankOffset: 2, RestartRules: defaultPolicies}
	if diff := cmp.Diff(rules, state.RestoreRules(worker).RestartRules); diff != "" {
		t.Errorf("rules without the member with rank 0 (-want +got):\n%s", diff)
	}
	master := gang.Gang{RestartRules: defaultPolicies}
	if diff := cmp.Diff(defaultPolicies, state.RestoreRules(master).RestartRules); diff != "" {
		t.Errorf("rules of the member with rank 0 (-want +got):\n%s", diff)
	}
	next := state.Next(rules, lifecycle.Snapshot{
		Members: lifecycle.Members{newMissingMember("a", 2), newMemberState("b", complete)}.
			RestoreCompleted(state.CompletedMembers),
		Now: afterGangStart(110),
	})
	if next.RestartRules != nil {
		t.Errorf("the gang in the phase %s has recorded rules, want none", next.Phase)
	}
}

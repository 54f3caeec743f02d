package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// newCandidate returns a workload of the gang train with a master and two workers, created at second 0.
func newCandidate(
	kind gang.Kind, role string, uid types.UID, change ...func(*lifecycle.Candidate),
) lifecycle.Candidate {
	c := lifecycle.Candidate{
		MemberSpec: gang.MemberSpec{
			Kind:         kind,
			WorkloadName: "train-" + role,
			Gang: gang.Gang{
				Name: "train",
				Role: role,
				Members: []gang.Member{
					{Role: "master", WorkloadName: "train-master", Size: 1},
					{Role: "worker", WorkloadName: "train-worker", Size: 2},
				},
			},
		},
		UID:          uid,
		CreationTime: podtest.At(0),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func withRecord(uids ...types.UID) func(*lifecycle.Candidate) {
	return func(c *lifecycle.Candidate) { c.Recorded = uids }
}

func createdAt(second int) func(*lifecycle.Candidate) {
	return func(c *lifecycle.Candidate) { c.CreationTime = podtest.At(second) }
}

func finishedAt(second int) func(*lifecycle.Candidate) {
	return func(c *lifecycle.Candidate) { c.FinishTime = podtest.At(second) }
}

func withWorkers(size int32) func(*lifecycle.Candidate) {
	return func(c *lifecycle.Candidate) {
		c.Gang.Members = []gang.Member{c.Gang.Members[0], {Role: "worker", WorkloadName: "train-worker", Size: size}}
	}
}

func active(c *lifecycle.Candidate) { c.Active = true }

func withProblem(c *lifecycle.Candidate) { c.Problem, c.Gang = "cannot be parsed", gang.Gang{} }

func TestIdentify(t *testing.T) {
	master := newCandidate(gang.Job, "master", "m", withRecord("m", "w"))
	worker := newCandidate(gang.Job, "worker", "w", withRecord("m", "w"))
	for name, c := range map[string]struct {
		candidates   []lifecycle.Candidate
		owners       []types.UID // of the Service
		want         lifecycle.Identity
		wantConflict string
	}{
		"members without a status form a gang": {
			candidates: []lifecycle.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			want:       lifecycle.Identity{Members: []int{0, 1}, StateSource: -1},
		},
		"members with a status form a gang": {
			candidates: []lifecycle.Candidate{master, worker},
			want:       lifecycle.Identity{Members: []int{0, 1}},
		},
		"workload that finished before another was created is of an earlier run": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m", finishedAt(5), withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "w", createdAt(6), withWorkers(7)),
			},
			want: lifecycle.Identity{Members: []int{1}, EarlierRun: []int{0}, StateSource: -1},
		},
		"workload that finished in the second in which another was created is of the same run": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m", finishedAt(5)),
				newCandidate(gang.Job, "worker", "w", createdAt(5)),
			},
			want: lifecycle.Identity{Members: []int{0, 1}, StateSource: -1},
		},
		"member that finished early stays a member whatever is created later": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m", withRecord("m", "w"), active),
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w"), finishedAt(5)),
				newCandidate(gang.StatefulSet, "worker", "stranger", createdAt(9)),
			},
			want: lifecycle.Identity{Members: []int{0, 1}, Strangers: []int{2}},
		},
		"workload that finished before its own creation, by another clock, is of this run": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "worker", "w", createdAt(5), finishedAt(3), withRecord("m", "w")),
			},
			want: lifecycle.Identity{Members: []int{0}},
		},
		"members of a gang that finished are of an earlier run": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.StatefulSet, "master", "m", withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "old", withRecord("m", "old"), finishedAt(5)),
				newCandidate(gang.Job, "worker", "w", createdAt(9)),
			},
			want: lifecycle.Identity{Members: []int{0, 2}, EarlierRun: []int{1}},
		},
		"workload of another kind with the name of a recorded member is a stranger": {
			candidates: []lifecycle.Candidate{master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1))},
			want:       lifecycle.Identity{Members: []int{0, 1}, Strangers: []int{2}},
		},
		"stranger whose status claims the members is a stranger": {
			candidates: []lifecycle.Candidate{
				master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withRecord("m", "evil")),
			},
			want: lifecycle.Identity{Members: []int{0, 1}, Strangers: []int{2}},
		},
		"workload that no member expects is a stranger": {
			candidates: []lifecycle.Candidate{master, newCandidate(gang.Job, "ps", "p", withProblem), worker},
			want:       lifecycle.Identity{Members: []int{0, 2}, Strangers: []int{1}},
		},
		"two workloads of one name are a conflict without a status": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w"),
				newCandidate(gang.StatefulSet, "worker", "other"),
			},
			want:         lifecycle.Identity{Members: []int{0, 1, 2}, StateSource: -1},
			wantConflict: "a Job and a StatefulSet are both named train-worker",
		},
		"without a status, the owners of the Service are the members": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w"),
				newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1)),
			},
			owners: []types.UID{"m", "w", "deleted"},
			want:   lifecycle.Identity{Members: []int{0, 1}, Strangers: []int{2}, StateSource: -1},
		},
		"member that is created after the Service joins the gang": {
			candidates: []lifecycle.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			owners:     []types.UID{"m"},
			want:       lifecycle.Identity{Members: []int{0, 1}, StateSource: -1},
		},
		"owners of the Service that no longer exist identify nobody": {
			candidates: []lifecycle.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			owners:     []types.UID{"deleted"},
			want:       lifecycle.Identity{Members: []int{0, 1}, StateSource: -1},
		},
		"status identifies the members, whoever owns the Service": {
			candidates: []lifecycle.Candidate{master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1))},
			owners:     []types.UID{"evil"},
			want:       lifecycle.Identity{Members: []int{0, 1}, Strangers: []int{2}},
		},
		"recreated member takes its place": {
			candidates: []lifecycle.Candidate{master, newCandidate(gang.Job, "worker", "w2", createdAt(9))},
			want:       lifecycle.Identity{Members: []int{0, 1}},
		},
		"recreated first member takes its place, and the state is that of the other member": {
			candidates: []lifecycle.Candidate{newCandidate(gang.Job, "master", "m2", createdAt(9)), worker},
			want:       lifecycle.Identity{Members: []int{0, 1}, StateSource: 1},
		},
		"recreated member with other settings is a conflict": {
			candidates:   []lifecycle.Candidate{master, newCandidate(gang.Job, "worker", "w2", createdAt(9), withWorkers(3))},
			want:         lifecycle.Identity{Members: []int{0, 1}},
			wantConflict: gang.AnnotationRoles,
		},
		"recorded member that cannot be parsed is a conflict": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w"), withProblem), master,
			},
			want:         lifecycle.Identity{Members: []int{0, 1}},
			wantConflict: "cannot be parsed",
		},
		"after a crash between two writes, the newer status is the state": {
			candidates: []lifecycle.Candidate{
				newCandidate(gang.Job, "master", "m", withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w")),
			},
			want: lifecycle.Identity{Members: []int{0, 1}, StateSource: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := lifecycle.Identify(c.candidates, c.owners)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(lifecycle.Identity{}, "Conflicts")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			conflicts := strings.Join(got.Conflicts, "\n")
			if (conflicts == "") != (c.wantConflict == "") || !strings.Contains(conflicts, c.wantConflict) {
				t.Errorf("conflicts %q, want %q", conflicts, c.wantConflict)
			}
		})
	}
}

// TestIdentifyManyCandidates checks that the result for thousands of workloads with the name of a gang is
// short, and that they do not join the gang.
func TestIdentifyManyCandidates(t *testing.T) {
	const strangers = 2_000
	var candidates []lifecycle.Candidate
	for i := range strangers {
		c := newCandidate(gang.Job, fmt.Sprint("x", i), types.UID(fmt.Sprint(i)), withProblem)
		candidates = append(candidates, c)
	}
	if got := lifecycle.Identify(candidates, nil); len(got.Conflicts) != 21 {
		t.Errorf("%d conflicts without a status, want 20 and the number of the others", len(got.Conflicts))
	}
	candidates = append(candidates, newCandidate(gang.Job, "master", "m", withRecord("m", "w")))
	got := lifecycle.Identify(candidates, nil)
	if len(got.Members) != 1 || len(got.Strangers) != strangers || len(got.Conflicts) > 0 {
		t.Errorf("%d members, %d strangers, conflicts %q", len(got.Members), len(got.Strangers), got.Conflicts)
	}
}

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

func TestFinishTime(t *testing.T) {
	finished := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Succeeded, LastTransitionTime: podtest.At(4)}}
	text, err := finished.Encode()
	if err != nil {
		t.Fatal(err)
	}
	withStatus := metav1.ObjectMeta{Annotations: map[string]string{gang.AnnotationStatus: text}}
	complete := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
		Type: batchv1.JobComplete, Status: "True", LastTransitionTime: metav1.NewTime(podtest.At(3)),
	}}}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		want time.Time
	}{
		"complete Job": {job: &batchv1.Job{Status: complete}, want: podtest.At(3)},
		"Job without pods of a gang that succeeded": {
			job:  &batchv1.Job{ObjectMeta: withStatus, Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](0)}},
			want: podtest.At(4),
		},
		"Job of a gang that succeeded, whose pods are kept": {job: &batchv1.Job{ObjectMeta: withStatus}},
		"new Job": {job: &batchv1.Job{}},
	} {
		if got := lifecycle.FinishTime(gang.Workload{Job: c.job}); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

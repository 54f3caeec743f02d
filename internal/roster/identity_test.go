package roster_test

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
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
	"rollcall.training/internal/testing/podtest"
)

// newCandidate returns a workload of the gang train with a master and two workers, created at second 0.
func newCandidate(
	kind gang.Kind, role string, uid types.UID, change ...func(*roster.Candidate),
) roster.Candidate {
	c := roster.Candidate{
		MemberSpec: roster.MemberSpec{
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

func withRecord(uids ...types.UID) func(*roster.Candidate) {
	return func(c *roster.Candidate) { c.Recorded = uids }
}

func createdAt(second int) func(*roster.Candidate) {
	return func(c *roster.Candidate) { c.CreationTime = podtest.At(second) }
}

func finishedAt(second int) func(*roster.Candidate) {
	return func(c *roster.Candidate) { c.FinishTime = podtest.At(second) }
}

func withWorkers(size int32) func(*roster.Candidate) {
	return func(c *roster.Candidate) {
		c.Gang.Members = []gang.Member{c.Gang.Members[0], {Role: "worker", WorkloadName: "train-worker", Size: size}}
	}
}

func active(c *roster.Candidate) { c.Active = true }

func withProblem(c *roster.Candidate) { c.Problem, c.Gang = "cannot be parsed", gang.Gang{} }

func TestIdentify(t *testing.T) {
	master := newCandidate(gang.Job, "master", "m", withRecord("m", "w"))
	worker := newCandidate(gang.Job, "worker", "w", withRecord("m", "w"))
	for name, c := range map[string]struct {
		candidates   []roster.Candidate
		owners       []types.UID // of the Service
		want         roster.Roster[int]
		wantConflict string
	}{
		"members without a status form a gang": {
			candidates: []roster.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			want:       roster.Roster[int]{Members: []int{0, 1}},
		},
		"members with a status form a gang": {
			candidates: []roster.Candidate{master, worker},
			want:       roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(0)},
		},
		"workload that finished before another was created is of an earlier run": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m", finishedAt(5), withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "w", createdAt(6), withWorkers(7)),
			},
			want: roster.Roster[int]{Members: []int{1}, EarlierRun: []int{0}},
		},
		"workload that finished in the second in which another was created is of the same run": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m", finishedAt(5)),
				newCandidate(gang.Job, "worker", "w", createdAt(5)),
			},
			want: roster.Roster[int]{Members: []int{0, 1}},
		},
		"member that finished early stays a member whatever is created later": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m", withRecord("m", "w"), active),
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w"), finishedAt(5)),
				newCandidate(gang.StatefulSet, "worker", "stranger", createdAt(9)),
			},
			want: roster.Roster[int]{Members: []int{0, 1}, Strangers: []int{2}, StateSource: ptr.To(0)},
		},
		"workload that finished before its own creation, by another clock, is of this run": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "worker", "w", createdAt(5), finishedAt(3), withRecord("m", "w")),
			},
			want: roster.Roster[int]{Members: []int{0}, StateSource: ptr.To(0)},
		},
		"members of a gang that finished are of an earlier run": {
			candidates: []roster.Candidate{
				newCandidate(gang.StatefulSet, "master", "m", withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "old", withRecord("m", "old"), finishedAt(5)),
				newCandidate(gang.Job, "worker", "w", createdAt(9)),
			},
			want: roster.Roster[int]{Members: []int{0, 2}, EarlierRun: []int{1}, StateSource: ptr.To(0)},
		},
		"workload of another kind with the name of a recorded member is a stranger": {
			candidates: []roster.Candidate{master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1))},
			want:       roster.Roster[int]{Members: []int{0, 1}, Strangers: []int{2}, StateSource: ptr.To(0)},
		},
		"stranger whose status claims the members is a stranger": {
			candidates: []roster.Candidate{
				master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withRecord("m", "evil")),
			},
			want: roster.Roster[int]{Members: []int{0, 1}, Strangers: []int{2}, StateSource: ptr.To(0)},
		},
		"workload that no member expects is a stranger": {
			candidates: []roster.Candidate{master, newCandidate(gang.Job, "ps", "p", withProblem), worker},
			want:       roster.Roster[int]{Members: []int{0, 2}, Strangers: []int{1}, StateSource: ptr.To(0)},
		},
		"two workloads of one name are a conflict without a status": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w"),
				newCandidate(gang.StatefulSet, "worker", "other"),
			},
			want:         roster.Roster[int]{Members: []int{0, 1, 2}},
			wantConflict: "a Job and a StatefulSet are both named train-worker",
		},
		"without a status, the owners of the Service are the members": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w"),
				newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1)),
			},
			owners: []types.UID{"m", "w", "deleted"},
			want:   roster.Roster[int]{Members: []int{0, 1}, Strangers: []int{2}},
		},
		"member that is created after the Service joins the gang": {
			candidates: []roster.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			owners:     []types.UID{"m"},
			want:       roster.Roster[int]{Members: []int{0, 1}},
		},
		"owners of the Service that no longer exist identify nobody": {
			candidates: []roster.Candidate{newCandidate(gang.Job, "master", "m"), newCandidate(gang.Job, "worker", "w")},
			owners:     []types.UID{"deleted"},
			want:       roster.Roster[int]{Members: []int{0, 1}},
		},
		"status identifies the members, whoever owns the Service": {
			candidates: []roster.Candidate{master, worker, newCandidate(gang.StatefulSet, "worker", "evil", withWorkers(1))},
			owners:     []types.UID{"evil"},
			want:       roster.Roster[int]{Members: []int{0, 1}, Strangers: []int{2}, StateSource: ptr.To(0)},
		},
		"recreated member takes its place": {
			candidates: []roster.Candidate{master, newCandidate(gang.Job, "worker", "w2", createdAt(9))},
			want:       roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(0)},
		},
		"recreated first member takes its place, and the state is that of the other member": {
			candidates: []roster.Candidate{newCandidate(gang.Job, "master", "m2", createdAt(9)), worker},
			want:       roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(1)},
		},
		"recreated member with other settings is a conflict": {
			candidates:   []roster.Candidate{master, newCandidate(gang.Job, "worker", "w2", createdAt(9), withWorkers(3))},
			want:         roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(0)},
			wantConflict: gang.AnnotationRoles,
		},
		"recorded member that cannot be parsed is a conflict": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w"), withProblem), master,
			},
			want:         roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(0)},
			wantConflict: "cannot be parsed",
		},
		"after a crash between two writes, the newer status is the state": {
			candidates: []roster.Candidate{
				newCandidate(gang.Job, "master", "m", withRecord("m", "old")),
				newCandidate(gang.Job, "worker", "w", withRecord("m", "w")),
			},
			want: roster.Roster[int]{Members: []int{0, 1}, StateSource: ptr.To(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := roster.Identify(c.candidates, c.owners)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(roster.Roster[int]{}, "Conflicts")); diff != "" {
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
	var candidates []roster.Candidate
	for i := range strangers {
		c := newCandidate(gang.Job, fmt.Sprint("x", i), types.UID(fmt.Sprint(i)), withProblem)
		candidates = append(candidates, c)
	}
	if got := roster.Identify(candidates, nil); len(got.Conflicts) != 21 {
		t.Errorf("%d conflicts without a status, want 20 and the number of the others", len(got.Conflicts))
	}
	candidates = append(candidates, newCandidate(gang.Job, "master", "m", withRecord("m", "w")))
	got := roster.Identify(candidates, nil)
	if len(got.Members) != 1 || len(got.Strangers) != strangers || len(got.Conflicts) > 0 {
		t.Errorf("%d members, %d strangers, conflicts %q", len(got.Members), len(got.Strangers), got.Conflicts)
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
		"Job without pods that completes after its gang succeeded": {
			job: &batchv1.Job{ObjectMeta: withStatus, Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](0)},
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
					Type: batchv1.JobComplete, Status: "True", LastTransitionTime: metav1.NewTime(podtest.At(9)),
				}}}},
			want: podtest.At(4),
		},
		"Job of a gang that succeeded, whose pods are kept": {job: &batchv1.Job{ObjectMeta: withStatus}},
		"new Job": {job: &batchv1.Job{}},
	} {
		if got := roster.FinishTime(gang.Workload{Job: c.job}); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

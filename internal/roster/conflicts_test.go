package roster_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/roster"
)

func TestFindConflicts(t *testing.T) {
	mpi := gang.Framework{Name: "mpi", ElasticRole: "worker"}
	withWorkers := func(workers int32) []gang.Member {
		return []gang.Member{
			{Role: "launcher", WorkloadName: "train-launcher", Size: 1},
			{Role: "worker", WorkloadName: "train-worker", Size: workers},
		}
	}
	launcher := roster.MemberSpec{Kind: gang.Job, WorkloadName: "train-launcher", Gang: gang.Gang{
		Name: "train", Framework: mpi, Role: "launcher", Members: withWorkers(4), Port: 2222,
	}}
	worker := roster.MemberSpec{Kind: gang.StatefulSet, WorkloadName: "train-worker", Gang: gang.Gang{
		Name: "train", Framework: mpi, Role: "worker", Members: withWorkers(4), Port: 2222, RankOffset: 1,
	}}
	edit := func(s roster.MemberSpec, change func(*roster.MemberSpec)) roster.MemberSpec {
		change(&s)
		return s
	}
	const fix = "; set the same value on all members, and recreate existing Jobs"
	const conflictingRoles = "rollcall.training/roles: conflicting values: " +
		"the Job train-launcher has launcher=1,worker=4, the StatefulSet train-worker has "

	for name, c := range map[string]struct {
		specs []roster.MemberSpec
		want  []string
	}{
		"equal settings": {
			specs: []roster.MemberSpec{launcher, worker},
		},
		"single workload": {
			specs: []roster.MemberSpec{launcher},
		},
		"slots concern only the launcher": {
			specs: []roster.MemberSpec{
				edit(launcher, func(s *roster.MemberSpec) { s.Gang.Launcher.SlotsPerWorker = 8 }),
				worker,
			},
		},
		"different frameworks hide other differences": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) { s.Gang.Framework.Name, s.Gang.Port = "horovod", 1 }),
			},
			want: []string{"rollcall.training/framework: conflicting values: " +
				"the Job train-launcher has mpi, the StatefulSet train-worker has horovod" + fix},
		},
		"different sizes": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) { s.Gang.Members = withWorkers(2) }),
			},
			want: []string{conflictingRoles + "launcher=1,worker=2" + fix},
		},
		"different order of roles gives the pods other ranks": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) {
					s.Gang.Members = withWorkers(4)
					slices.Reverse(s.Gang.Members)
				}),
			},
			want: []string{conflictingRoles + "worker=4,launcher=1" + fix},
		},
		"different sizes and ports are both reported": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) { s.Gang.Members, s.Gang.Port = withWorkers(2), 3333 }),
			},
			want: []string{
				conflictingRoles + "launcher=1,worker=2" + fix,
				"rollcall.training/port: conflicting values: " +
					"the Job train-launcher has 2222, the StatefulSet train-worker has 3333" + fix,
			},
		},
		"size of the elastic role is not compared": {
			specs: []roster.MemberSpec{
				edit(launcher, func(s *roster.MemberSpec) { s.Gang.Elastic = &gang.ElasticBounds{Min: 2, Max: 6} }),
				edit(worker, func(s *roster.MemberSpec) {
					s.Gang.Elastic, s.Gang.Members = &gang.ElasticBounds{Min: 2, Max: 6}, withWorkers(6)
				}),
			},
		},
		"elastic bounds on one member only": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) { s.Gang.Elastic = &gang.ElasticBounds{Min: 2, Max: 6} }),
			},
			want: []string{
				conflictingRoles + "launcher=1,worker=2:6" + fix,
				"rollcall.training/elastic: conflicting values: " +
					"the Job train-launcher has no value, the StatefulSet train-worker has 2:6" + fix,
			},
		},
		"Job and StatefulSet with the same name": {
			specs: []roster.MemberSpec{
				launcher,
				worker,
				edit(worker, func(s *roster.MemberSpec) { s.Kind = gang.Job }),
			},
			want: []string{"a Job and a StatefulSet are both named train-worker, " +
				"so their pods would have the same ranks; delete one of the two"},
		},
		"workload that cannot be parsed": {
			specs: []roster.MemberSpec{
				launcher,
				{Kind: gang.Job, WorkloadName: "train-worker", Problem: "was admitted without Rollcall"},
			},
			want: []string{"the Job train-worker was admitted without Rollcall"},
		},
		"worker without roles is a gang of its own": {
			specs: []roster.MemberSpec{
				launcher,
				edit(worker, func(s *roster.MemberSpec) {
					s.Gang.Name = "train-worker"
					s.Gang.Members = []gang.Member{{Role: "worker", WorkloadName: "train-worker", Size: 4}}
				}),
			},
			want: []string{
				"rollcall.training/gang: conflicting values: " +
					"the Job train-launcher has train, the StatefulSet train-worker has train-worker" + fix,
				conflictingRoles + "worker=4" + fix,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, roster.FindConflicts(c.specs)); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			reversed := slices.Clone(c.specs)
			slices.Reverse(reversed)
			if diff := cmp.Diff(c.want, roster.FindConflicts(reversed)); diff != "" {
				t.Errorf("conflicts depend on the order (-want +got):\n%s", diff)
			}
		})
	}
}

package gang_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

func TestDisagreements(t *testing.T) {
	mpi := gang.Framework{Name: "mpi", Elastic: "worker"}
	roles := func(workers int32) []gang.Member {
		return []gang.Member{{Role: "launcher", Workload: "train-launcher", Size: 1}, {Role: "worker", Workload: "train-worker", Size: workers}}
	}
	launcher := gang.Voice{Kind: gang.Job, Workload: "train-launcher", Gang: gang.Gang{Name: "train", Framework: mpi, Role: "launcher", Members: roles(4), Port: 2222}}
	worker := gang.Voice{Kind: gang.StatefulSet, Workload: "train-worker", Gang: gang.Gang{Name: "train", Framework: mpi, Role: "worker", Members: roles(4), Port: 2222, Offset: 1}}
	but := func(v gang.Voice, change func(*gang.Voice)) gang.Voice {
		change(&v)
		return v
	}
	const fix = "; make it the same on all of them, and create Jobs anew, which take it at their creation alone"
	for name, c := range map[string]struct {
		reason string
		voices []gang.Voice
		want   []string
	}{
		"agree": {"", []gang.Voice{launcher, worker}, nil},
		"alone": {"", []gang.Voice{launcher}, nil},
		"own affairs": {"only the launcher has to know how many processes a host gets",
			[]gang.Voice{but(launcher, func(v *gang.Voice) { v.Gang.Launch.Slots = 8 }), worker}, nil},
		"framework": {"the rest follows from it",
			[]gang.Voice{launcher, but(worker, func(v *gang.Voice) { v.Gang.Framework.Name, v.Gang.Port = "horovod", 1 })},
			[]string{"rollcall.training/framework: the Job train-launcher says mpi, the StatefulSet train-worker says horovod" + fix}},
		"sizes": {"",
			[]gang.Voice{launcher, but(worker, func(v *gang.Voice) { v.Gang.Members = roles(2) })},
			[]string{"rollcall.training/roles: the Job train-launcher says launcher=1,worker=4, the StatefulSet train-worker says launcher=1,worker=2" + fix}},
		"port and sizes": {"all is told at once",
			[]gang.Voice{launcher, but(worker, func(v *gang.Voice) { v.Gang.Members, v.Gang.Port = roles(2), 3333 })},
			[]string{
				"rollcall.training/roles: the Job train-launcher says launcher=1,worker=4, the StatefulSet train-worker says launcher=1,worker=2" + fix,
				"rollcall.training/port: the Job train-launcher says 2222, the StatefulSet train-worker says 3333" + fix}},
		"elastic, grown": {"the size that varies is not compared",
			[]gang.Voice{
				but(launcher, func(v *gang.Voice) { v.Gang.Elastic = &gang.Elastic{Min: 2, Max: 6} }),
				but(worker, func(v *gang.Voice) { v.Gang.Elastic, v.Gang.Members = &gang.Elastic{Min: 2, Max: 6}, roles(6) })}, nil},
		"elastic, other bounds": {"",
			[]gang.Voice{launcher, but(worker, func(v *gang.Voice) { v.Gang.Elastic = &gang.Elastic{Min: 2, Max: 6} })},
			[]string{
				"rollcall.training/roles: the Job train-launcher says launcher=1,worker=4, the StatefulSet train-worker says launcher=1,worker=2:6" + fix,
				"rollcall.training/elastic: the Job train-launcher says nothing, the StatefulSet train-worker says 2:6" + fix}},
		"twice": {"their pods would have the same addresses",
			[]gang.Voice{launcher, worker, but(worker, func(v *gang.Voice) { v.Kind = gang.Job })},
			[]string{"a Job and a StatefulSet are both called train-worker, and their pods would have the same ranks; delete one of the two"}},
		"silent": {"",
			[]gang.Voice{launcher, {Kind: gang.Job, Workload: "train-worker", Silent: "was admitted without Rollcall"}},
			[]string{"the Job train-worker was admitted without Rollcall"}},
		"another gang's": {"a worker without roles is a gang by itself",
			[]gang.Voice{launcher, but(worker, func(v *gang.Voice) {
				v.Gang.Name, v.Gang.Members = "train-worker", []gang.Member{{Role: "worker", Workload: "train-worker", Size: 4}}
			})},
			[]string{
				"rollcall.training/gang: the Job train-launcher says train, the StatefulSet train-worker says train-worker" + fix,
				"rollcall.training/roles: the Job train-launcher says launcher=1,worker=4, the StatefulSet train-worker says worker=4" + fix}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, gang.Disagreements(c.voices)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			backwards := slices.Clone(c.voices)
			slices.Reverse(backwards)
			if diff := cmp.Diff(c.want, gang.Disagreements(backwards)); diff != "" {
				t.Errorf("the order matters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNameOf(t *testing.T) {
	fs := gang.Frameworks{{Name: "mpi", Role: "launcher", Roles: []gang.Role{{Name: "launcher"}, {Name: "worker"}}}}
	for name, c := range map[string]struct {
		reason             string
		workload           string
		labels, notes, pod map[string]string
		want, namedFor     string
	}{
		"alone":          {"", "train", nil, nil, nil, "train", ""},
		"alone, named":   {"", "train", map[string]string{gang.LabelGang: "team"}, nil, nil, "team", ""},
		"admitted":       {"the pods' name counts: a Job's cannot follow its label", "train", map[string]string{gang.LabelGang: "other"}, nil, map[string]string{gang.LabelGang: "team"}, "team", ""},
		"default role":   {"", "train-launcher", nil, map[string]string{gang.AnnotationRoles: "launcher=1"}, nil, "train", "train"},
		"named role":     {"", "train-worker", map[string]string{gang.LabelRole: "worker"}, map[string]string{gang.AnnotationRoles: "launcher=1"}, nil, "train", "train"},
		"forgotten":      {"without roles it is a gang by itself, and named as a member", "train-worker", map[string]string{gang.LabelRole: "worker"}, nil, nil, "train-worker", "train"},
		"another's name": {"it has roles, and is named for none", "train-x", map[string]string{gang.LabelRole: "worker"}, map[string]string{gang.AnnotationRoles: "launcher=1"}, nil, "train-x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: c.workload, Labels: map[string]string{gang.LabelFramework: "mpi"}, Annotations: c.notes}}
			for k, v := range c.labels {
				j.Labels[k] = v
			}
			j.Spec.Template.Labels = c.pod
			w := gang.Workload{Job: j}
			if got := gang.NameOf(w, fs); got != c.want {
				t.Errorf("%s: of the gang %q, want %q", c.reason, got, c.want)
			}
			if got := gang.NamedFor(w, fs); got != c.namedFor {
				t.Errorf("%s: named for %q, want %q", c.reason, got, c.namedFor)
			}
		})
	}
}

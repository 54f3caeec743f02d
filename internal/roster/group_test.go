package roster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/roster"
)

func TestGroupWorkloads(t *testing.T) {
	frameworks := gang.Frameworks{{
		Name: "mpi", DefaultRole: "launcher", Roles: []gang.Role{{Name: "launcher"}, {Name: "worker"}},
	}}
	newJob := func(name string, change func(*batchv1.Job)) gang.Workload {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace:   "team",
			Name:        name,
			Labels:      map[string]string{gang.LabelFramework: "mpi"},
			Annotations: map[string]string{},
		}}
		change(j)
		return gang.Workload{Job: j}
	}
	unchanged := func(*batchv1.Job) {}
	withRoles := func(j *batchv1.Job) { j.Annotations[gang.AnnotationRoles] = "launcher=1,worker=2" }
	asWorker := func(j *batchv1.Job) { j.Labels[gang.LabelRole] = "worker" }
	asWorkerWithRoles := func(j *batchv1.Job) { asWorker(j); withRoles(j) }
	named := func(name string) func(*batchv1.Job) { return func(j *batchv1.Job) { j.Labels[gang.LabelGang] = name } }

	for name, c := range map[string]struct {
		workloads []gang.Workload
		want      []string // a line for each group
	}{
		"no workloads": {},
		"workloads without roles are gangs of their own": {
			workloads: []gang.Workload{newJob("b", unchanged), newJob("a", unchanged)},
			want:      []string{"team/b: b", "team/a: a"},
		},
		"Jobs of a CronJob share the name of the gang only": {
			workloads: []gang.Workload{
				newJob("nightly-1", named("nightly")),
				newJob("nightly-2", named("nightly")),
			},
			want: []string{"team/nightly: nightly-1", "team/nightly: nightly-2"},
		},
		"members with roles are one gang in the order of the input": {
			workloads: []gang.Workload{
				newJob("train-worker", asWorkerWithRoles),
				newJob("other", unchanged),
				newJob("train-launcher", withRoles),
			},
			want: []string{"team/train, multi-workload: train-worker train-launcher", "team/other: other"},
		},
		"a single workload with roles is a multi-workload gang": {
			workloads: []gang.Workload{newJob("train-launcher", withRoles)},
			want:      []string{"team/train, multi-workload: train-launcher"},
		},
		"a worker without roles is a gang named after the worker": {
			workloads: []gang.Workload{newJob("train-launcher", withRoles), newJob("train-worker", asWorker)},
			want:      []string{"team/train, multi-workload: train-launcher", "team/train-worker: train-worker"},
		},
		"a worker with the gang's label but without roles is a member": {
			workloads: []gang.Workload{
				newJob("train-worker", func(j *batchv1.Job) { asWorker(j); named("train")(j) }),
				newJob("train-launcher", withRoles),
			},
			want: []string{"team/train, multi-workload: train-worker train-launcher"},
		},
		"a workload with the gang's label and an unrelated name is not a member": {
			workloads: []gang.Workload{newJob("train-launcher", withRoles), newJob("eval", named("train"))},
			want:      []string{"team/train, multi-workload: train-launcher", "team/train: eval"},
		},
		"members in another namespace are another gang": {
			workloads: []gang.Workload{
				newJob("train-launcher", withRoles),
				newJob("train-worker", func(j *batchv1.Job) { asWorkerWithRoles(j); j.Namespace = "other" }),
			},
			want: []string{"team/train, multi-workload: train-launcher", "other/train, multi-workload: train-worker"},
		},
		"unlabeled workloads and workloads that opted out are not in any gang": {
			workloads: []gang.Workload{
				newJob("unlabeled", func(j *batchv1.Job) { j.Labels = nil }),
				newJob("train-launcher", func(j *batchv1.Job) { withRoles(j); j.Labels[gang.LabelInject] = "false" }),
				newJob("train-worker", func(j *batchv1.Job) { asWorker(j); named("train")(j) }),
			},
			want: []string{"team/train: train-worker"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, g := range roster.GroupWorkloads(c.workloads, frameworks) {
				line := g.Namespace + "/" + g.Name
				if g.MultiWorkload {
					line += ", multi-workload"
				}
				line += ":"
				for _, w := range g.Workloads {
					line += " " + w.Meta().Name
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

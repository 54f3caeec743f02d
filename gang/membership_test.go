package gang_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

func TestResolveName(t *testing.T) {
	frameworks := gang.Frameworks{{
		Name: "mpi", DefaultRole: "launcher", Roles: []gang.Role{{Name: "launcher"}, {Name: "worker"}},
	}}
	withRoles := map[string]string{gang.AnnotationRoles: "launcher=1"}
	asWorker := map[string]string{gang.LabelRole: "worker"}
	for name, c := range map[string]struct {
		workload    string
		labels      map[string]string
		annotations map[string]string
		podLabels   map[string]string
		want        string // of ResolveName
		wantDerived string // of DeriveName
	}{
		"default is the name of the workload": {
			workload: "train",
			want:     "train",
		},
		"gang label": {
			workload: "train",
			labels:   map[string]string{gang.LabelGang: "team"},
			want:     "team",
		},
		"name of the pods wins after admission": {
			workload:  "train",
			labels:    map[string]string{gang.LabelGang: "other"},
			podLabels: map[string]string{gang.LabelGang: "team"},
			want:      "team",
		},
		"member with the default role": {
			workload:    "train-launcher",
			annotations: withRoles,
			want:        "train",
			wantDerived: "train",
		},
		"member with the role label": {
			workload:    "train-worker",
			labels:      asWorker,
			annotations: withRoles,
			want:        "train",
			wantDerived: "train",
		},
		"worker without roles is a gang of its own": {
			workload:    "train-worker",
			labels:      asWorker,
			want:        "train-worker",
			wantDerived: "train",
		},
		"workload with roles that is not named after its role": {
			workload:    "train-x",
			labels:      asWorker,
			annotations: withRoles,
			want:        "train-x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Name: c.workload, Labels: map[string]string{gang.LabelFramework: "mpi"}, Annotations: c.annotations,
			}}
			for k, v := range c.labels {
				j.Labels[k] = v
			}
			j.Spec.Template.Labels = c.podLabels
			w := gang.Workload{Job: j}
			if got := gang.ResolveName(w, frameworks); got != c.want {
				t.Errorf("ResolveName() = %q, want %q", got, c.want)
			}
			if got := gang.DeriveName(w, frameworks); got != c.wantDerived {
				t.Errorf("DeriveName() = %q, want %q", got, c.wantDerived)
			}
		})
	}
}

package ir_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// newRole returns a role whose pods run a command.
func newRole(name string, pods int32, command ...string) ir.Role {
	var recorder source.Recorder
	return ir.Role{
		Name: name, Pods: pods, RollcallAnnotations: map[string]string{},
		Source: recorder.Root(map[string]any{"template": map[string]any{}}).Get("template"),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Command: command}},
		}},
	}
}

// describeObjects returns kind, name, number of pods and role of each object.
func describeObjects(objects []runtime.Object) []string {
	var out []string
	for _, obj := range objects {
		switch o := obj.(type) {
		case *batchv1.Job:
			out = append(out, fmt.Sprintf("Job %s %d %s", o.Name, *o.Spec.Parallelism, o.Labels[gang.LabelRole]))
		case *appsv1.StatefulSet:
			out = append(out, fmt.Sprintf("StatefulSet %s %d %s", o.Name, *o.Spec.Replicas, o.Labels[gang.LabelRole]))
		case *corev1.Service:
			out = append(out, fmt.Sprintf("Service %s", o.Name))
		}
	}
	return out
}

func TestBuild(t *testing.T) {
	server := newRole("ps", 1, "serve")
	server.StatefulSet = true
	tests := map[string]struct {
		gang ir.Gang
		want []string
	}{
		"one role is one workload with the name of the gang": {
			gang: ir.Gang{Roles: []ir.Role{newRole("worker", 2)}},
			want: []string{"Job train 2 "},
		},
		"roles with equal templates share a workload": {
			gang: ir.Gang{Homogeneous: true, Roles: []ir.Role{newRole("master", 1), newRole("worker", 2)}},
			want: []string{"Job train 3 "},
		},
		"roles with different work do not share a workload": {
			gang: ir.Gang{Roles: []ir.Role{newRole("chief", 1), newRole("worker", 2)}},
			want: []string{"Job train-chief 1 chief", "Job train-worker 2 worker"},
		},
		"roles with different templates do not share a workload": {
			gang: ir.Gang{Homogeneous: true, Roles: []ir.Role{newRole("master", 1, "a"), newRole("worker", 2, "b")}},
			want: []string{"Job train-master 1 master", "Job train-worker 2 worker"},
		},
		"role that never finishes is a StatefulSet": {
			gang: ir.Gang{Roles: []ir.Role{newRole("worker", 2), server}},
			want: []string{"Job train-worker 2 worker", "StatefulSet train-ps 1 ps"},
		},
		"role that never finishes is a Job if the gang is suspended": {
			gang: ir.Gang{
				JobSpec: batchv1.JobSpec{Suspend: ptr.To(true)},
				Roles:   []ir.Role{newRole("worker", 2), server},
			},
			want: []string{"Job train-worker 2 worker", "Job train-ps 1 ps"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.gang.Name, tt.gang.Framework = "train", "tensorflow"
			if diff := cmp.Diff(tt.want, describeObjects(tt.gang.Build())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRewriteServiceNames(t *testing.T) {
	tests := map[string]struct{ command, want string }{
		"a name of a Service gets the domain of the gang": {
			command: "train-worker-1 train-worker-0.team.svc:80", want: "train-2.train train-1.train.team.svc:80",
		},
		"a name of a pod that does not exist gets an index": {command: "train-worker-7", want: "train-8.train"},
		"a computed name stays":                             {command: "train-worker-$i", want: "train-worker-$i"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			master, worker := newRole("master", 1, tt.command), newRole("worker", 2, tt.command)
			worker.SourceNames = ir.SourceNames{Prefix: "train-worker-", PerPodService: true}
			b := ir.Gang{Name: "train", Framework: "pytorch", Homogeneous: true, Roles: []ir.Role{master, worker}}
			job := b.Build()[0].(*batchv1.Job)
			if diff := cmp.Diff(tt.want, job.Spec.Template.Spec.Containers[0].Command[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRewriteHostNames(t *testing.T) {
	tests := map[string]struct{ command, want string }{
		"hosts get their new names": {
			command: "-H train-node-0-0.train:2,train-node-0-1",
			want:    "-H train-worker-0.train:2,train-worker-1",
		},
		"name without an index gets an index": {
			command: "train-boss,train-boss",
			want:    "train-launcher-0,train-launcher-0",
		},
		"computed index stays": {
			command: "train-node-0-$i",
			want:    "train-worker-$i",
		},
		"similar names stay": {
			command: "train-node-0-1-data train-bosses",
			want:    "train-node-0-1-data train-bosses",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			launcher, worker := newRole("launcher", 1, tt.command), newRole("worker", 2, "")
			launcher.SourceNames = ir.SourceNames{Prefix: "train-boss", SinglePod: true}
			worker.SourceNames = ir.SourceNames{Prefix: "train-node-0-"}
			b := ir.Gang{Name: "train", Framework: "mpi", Roles: []ir.Role{launcher, worker}}
			job := b.Build()[0].(*batchv1.Job)
			if diff := cmp.Diff(tt.want, job.Spec.Template.Spec.Containers[0].Command[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if b.Roles[0].Template.Spec.Containers[0].Command[0] != tt.command {
				t.Error("Build changed the Gang")
			}
		})
	}
}

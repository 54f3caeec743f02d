package blueprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// role is a part of a gang whose pods run a command.
func role(name string, pods int32, command ...string) blueprint.Role {
	var account ledger.Ledger
	return blueprint.Role{
		Name: name, Pods: pods, Keys: map[string]string{},
		Node:     account.Root(map[string]any{"template": map[string]any{}}).Get("template"),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Command: command}}}},
	}
}

// titles are the objects in short: what they are, their pods, and their role.
func titles(objects []runtime.Object) []string {
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
	served := role("ps", 1, "serve")
	served.Set = true
	tests := []struct {
		reason string
		gang   blueprint.Blueprint
		want   []string
	}{
		{"one role is one workload of the gang's name", blueprint.Blueprint{Roles: []blueprint.Role{role("worker", 2)}}, []string{"Job train 2 "}},
		{"roles that differ in their names alone are one workload", blueprint.Blueprint{OneKind: true,
			Roles: []blueprint.Role{role("master", 1), role("worker", 2)}}, []string{"Job train 3 "}},
		{"unless they do different work", blueprint.Blueprint{Roles: []blueprint.Role{role("chief", 1), role("worker", 2)}},
			[]string{"Job train-chief 1 chief", "Job train-worker 2 worker"}},
		{"templates that differ", blueprint.Blueprint{OneKind: true, Roles: []blueprint.Role{role("master", 1, "a"), role("worker", 2, "b")}},
			[]string{"Job train-master 1 master", "Job train-worker 2 worker"}},
		{"a role that never ends", blueprint.Blueprint{Roles: []blueprint.Role{role("worker", 2), served}},
			[]string{"Job train-worker 2 worker", "StatefulSet train-ps 1 ps"}},
		{"that has to be held back, which a StatefulSet cannot", blueprint.Blueprint{Job: batchv1.JobSpec{Suspend: ptr.To(true)},
			Roles: []blueprint.Role{role("worker", 2), served}}, []string{"Job train-worker 2 worker", "Job train-ps 1 ps"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			tt.gang.Name, tt.gang.Framework = "train", "tensorflow"
			if diff := cmp.Diff(tt.want, titles(tt.gang.Build())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAliases(t *testing.T) {
	named := func(pods int32, command string) blueprint.Role {
		r := role("worker", pods, command)
		r.Former = blueprint.Former{Prefix: "train-worker-", Alone: true}
		return r
	}
	tests := []struct {
		reason  string
		role    blueprint.Role
		aliases blueprint.Aliases
		texts   []string
		want    string
	}{
		{"the names that are called, each once", named(4, "train-worker-2 train-worker-0 train-worker-2"), "", nil, "train-worker-0 train-worker-2"},
		{"in texts that came with it, too", named(4, ""), blueprint.AliasesUsed, []string{"ping train-worker-3"}, "train-worker-3"},
		{"none that is no pod", named(2, "train-worker-7"), "", nil, ""},
		{"all, where names are put together", named(3, "train-worker-$i"), "", nil, "train-worker-0 train-worker-1 train-worker-2"},
		{"but not hundreds", named(100, "train-worker-$i"), "", nil, ""},
		{"all when all are wanted", named(2, ""), blueprint.AliasesAll, nil, "train-worker-0 train-worker-1"},
		{"none when none are", named(2, "train-worker-0"), blueprint.AliasesNone, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := blueprint.Blueprint{Name: "train", Framework: "pytorch", Roles: []blueprint.Role{tt.role}, Aliases: tt.aliases, Texts: tt.texts}
			var got []string
			for _, title := range titles(b.Build()) {
				if name, ok := strings.CutPrefix(title, "Service "); ok {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAliasesLeadToThePod(t *testing.T) {
	master, worker := role("master", 1, "train-worker-1"), role("worker", 2, "train-worker-1")
	worker.Former = blueprint.Former{Prefix: "train-worker-", Alone: true}
	b := blueprint.Blueprint{Name: "train", Framework: "pytorch", OneKind: true, Roles: []blueprint.Role{master, worker}}
	service := b.Build()[0].(*corev1.Service)
	want := map[string]string{batchv1.JobNameLabel: "train", batchv1.JobCompletionIndexAnnotation: "2"}
	if diff := cmp.Diff(want, service.Spec.Selector); diff != "" {
		t.Errorf("the second worker is the third pod of the one workload; -want +got:\n%s", diff)
	}
}

func TestRewriting(t *testing.T) {
	hosts := func(command string) blueprint.Blueprint {
		launcher, worker := role("launcher", 1, command), role("worker", 2, "")
		launcher.Former = blueprint.Former{Prefix: "train-boss", Single: true}
		worker.Former = blueprint.Former{Prefix: "train-node-0-"}
		return blueprint.Blueprint{Name: "train", Framework: "mpi", Roles: []blueprint.Role{launcher, worker}}
	}
	tests := []struct{ reason, command, want string }{
		{"hosts by their new names", "-H train-node-0-0.train:2,train-node-0-1", "-H train-worker-0.train:2,train-worker-1"},
		{"a name without an index gets one", "train-boss,train-boss", "train-launcher-0,train-launcher-0"},
		{"a name that is put together", "train-node-0-$i", "train-worker-$i"},
		{"what only looks like one stays", "train-node-0-1-data train-bosses", "train-node-0-1-data train-bosses"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := hosts(tt.command)
			job := b.Build()[0].(*batchv1.Job)
			if diff := cmp.Diff(tt.want, job.Spec.Template.Spec.Containers[0].Command[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if b.Roles[0].Template.Spec.Containers[0].Command[0] != tt.command {
				t.Error("the description was changed too")
			}
		})
	}
}

func TestIndexField(t *testing.T) {
	const former = "metadata.labels['example.com/index']"
	reads := func(name string, set bool) blueprint.Role {
		r := role(name, 2)
		r.Set, r.Former = set, blueprint.Former{IndexField: former}
		r.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "I", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: `metadata.labels["example.com/index"]`}}}}
		return r
	}
	b := blueprint.Blueprint{Name: "train", Framework: "tensorflow", Roles: []blueprint.Role{reads("worker", false), reads("ps", true)}}
	objects := b.Build()
	got := []string{
		objects[0].(*batchv1.Job).Spec.Template.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath,
		objects[1].(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath,
	}
	want := []string{"metadata.labels['batch.kubernetes.io/job-completion-index']", "metadata.labels['apps.kubernetes.io/pod-index']"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package recording

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// echo is a Recorder of an operator that creates one pod with the name of the job.
func echo(_ context.Context, objects []*unstructured.Unstructured) (*Recording, error) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: objects[0].GetName()}}
	return New("echo", []corev1.Pod{p}, nil), nil
}

func TestRecordDirectory(t *testing.T) {
	write := func(t *testing.T, file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   string
	}{
		{
			name:   "unchanged recording is not stale",
			change: func(*testing.T, string) {},
		},
		{
			name: "changed manifest makes the recording stale",
			change: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "a.yaml"), "metadata: {name: other}")
			},
			want: "a.recorded.json is stale",
		},
		{
			name: "changed recording is stale",
			change: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "a.recorded.json"), "{}")
			},
			want: "a.recorded.json is stale",
		},
		{
			name: "missing recording is stale",
			change: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "b.yaml"), "metadata: {name: b}")
			},
			want: "b.recorded.json is stale",
		},
		{
			name: "recording without a manifest is an error",
			change: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "c.recorded.json"), "{}")
			},
			want: "c.recorded.json has no manifest",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), "metadata: {name: a}")
			if err := recordDirectory(context.Background(), echo, dir, false); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			err := recordDirectory(context.Background(), echo, dir, true)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAddJob(t *testing.T) {
	two, indexed := int32(2), batchv1.IndexedCompletion
	r := &Recording{}
	r.AddJob(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: batchv1.JobSpec{
			Parallelism: &two, Completions: &two, CompletionMode: &indexed,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "a"},
				{Name: "b", Env: []corev1.EnvVar{{Name: completionIndexEnv, Value: "mine"}}},
			}}},
		},
	})
	var names, hosts, indexes, refs, own []string
	for _, p := range r.Pods {
		names, hosts = append(names, p.Name), append(hosts, p.Hostname)
		indexes = append(indexes, p.Annotations[completionIndex])
		refs = append(refs, p.Containers[0].Env[0].FieldRef)
		own = append(own, *p.Containers[1].Env[0].Value)
	}
	label := "metadata.labels['batch.kubernetes.io/job-completion-index']"
	for what, x := range map[string][2][]string{
		"names": {names, {"train-0", "train-1"}}, "host names": {hosts, {"train-0", "train-1"}},
		"indexes": {indexes, {"0", "1"}}, "references": {refs, {label, label}}, "own values": {own, {"mine", "mine"}},
	} {
		if !reflect.DeepEqual(x[0], x[1]) {
			t.Errorf("%s: got %v, want %v", what, x[0], x[1])
		}
	}
}

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

// echo is an operator that makes one pod, named like its job.
func echo(_ context.Context, objects []*unstructured.Unstructured) (*Recording, error) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: objects[0].GetName()}}
	return New("echo", []corev1.Pod{p}, nil), nil
}

func TestRecords(t *testing.T) {
	write := func(t *testing.T, file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, reason string
		change       func(t *testing.T, dir string)
		want         string
	}{
		{"fresh", "nothing has changed", func(*testing.T, string) {}, ""},
		{"manifest changed", "the operator makes something else of it", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.yaml"), "metadata: {name: other}")
		}, "a.recorded.json is stale"},
		{"recording changed", "no operator has written it", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a.recorded.json"), "{}")
		}, "a.recorded.json is stale"},
		{"no recording", "a new case", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "b.yaml"), "metadata: {name: b}")
		}, "b.recorded.json is stale"},
		{"no manifest", "a case that was removed by half", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "c.recorded.json"), "{}")
		}, "c.recorded.json has no manifest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a.yaml"), "metadata: {name: a}")
			if err := records(context.Background(), echo, dir, false); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			err := records(context.Background(), echo, dir, true)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s: got %v", tt.reason, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s: got %v, want %q", tt.reason, err, tt.want)
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

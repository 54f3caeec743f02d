package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
)

const appliedJob = `apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {rollcall.training/framework: pytorch, owner: anna}
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer
          image: train:1
`

// newAppliedCluster returns a cluster with the object that a manifest becomes by kubectl apply. Its API server injects
// new Jobs, and rejects changes of the pod template.
func newAppliedCluster(t *testing.T, text string) *dynamicfake.FakeDynamicClient {
	t.Helper()
	var objects []runtime.Object
	if text != "" {
		objects = append(objects, admitManifest(t, []byte(text)))
	}
	client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...)
	client.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent, err := action.(clienttesting.CreateActionImpl).Object.(*unstructured.Unstructured).MarshalJSON()
		if err != nil {
			return true, nil, err
		}
		return true, admitManifest(t, sent), nil
	})
	client.PrependReactor("patch", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		if got := strings.Join(patch.PatchOptions.DryRun, ""); got != "All" {
			t.Errorf("dry run %q, want All", got)
		}
		if !strings.Contains(string(patch.Patch), `"template"`) {
			return false, nil, nil
		}
		immutable := field.Invalid(field.NewPath("spec", "template"), string(patch.Patch), "field is immutable")
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "train",
			field.ErrorList{immutable})
	})
	return client
}

// admitManifest returns a Job as an API server stores it.
func admitManifest(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	var job batchv1.Job
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	job.Namespace, job.UID, job.Generation, job.ResourceVersion = "team", "uid-train", 3, "7"
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	last, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[corev1.LastAppliedConfigAnnotation] = string(last)
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	if _, err := engine.Admit(gang.Workload{Job: &job}); err != nil {
		t.Fatal(err)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&job)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: tree}
}

func TestDiffOfCluster(t *testing.T) {
	annotated := strings.Replace(strings.Replace(appliedJob, ", owner: anna", "", 1),
		"\nspec:", "\n  annotations: {rollcall.training/max-restarts: \"5\"}\nspec:", 1)
	for name, c := range map[string]struct {
		live, manifest string
		wantCode       int
		want           []string // parts of the output, in order
		wantChanges    []string // all changed lines; not compared if nil
		wantStderr     string   // part of standard error; empty for none
	}{
		"a new Job as the webhook admits it": {
			manifest: appliedJob, wantCode: 1,
			want: []string{
				"--- job/train in the cluster\n+++ job/train applied\n", "+    rollcall.training/injected: record of the",
				"+  completionMode: Indexed\n", "+        - name: MASTER_ADDR\n",
			},
		},
		"a Job that does not change": {live: appliedJob, manifest: appliedJob},
		"a new annotation and a removed label": {
			live: appliedJob, manifest: annotated, wantCode: 1,
			wantChanges: []string{"+    rollcall.training/max-restarts: \"5\"", "-    owner: anna"},
		},
		"an immutable field": {
			live: appliedJob, manifest: strings.Replace(appliedJob, "train:1", "train:2", 1), wantCode: 1,
			wantChanges: []string{"-        image: train:1", "+        image: train:2"},
			wantStderr:  "error: job/train: spec.template: field is immutable; recreate the Job with kubectl replace --force\n",
		},
		"an object that is not compared": {
			live: appliedJob, manifest: appliedJob + "---\n" + configMapManifest,
			wantStderr: "note: not compared: 1 ConfigMap; use kubectl diff\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("job.yaml", strings.NewReader(c.manifest))
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			d := clusterDiffer{client: newAppliedCluster(t, c.live), namespace: "team"}
			err = d.diff(t.Context(), docs, &stdout, &stderr)
			if code := errorCode(err); code != c.wantCode {
				t.Errorf("exit code %d, want %d: %v", code, c.wantCode, err)
			}
			if stderr.String() != c.wantStderr {
				t.Errorf("standard error %q, want %q", stderr.String(), c.wantStderr)
			}
			checkOrder(t, stdout.String(), c.want)
			if diff := cmp.Diff(c.wantChanges, changedLines(stdout.String())); c.want == nil && diff != "" {
				t.Errorf("changed lines (-want +got):\n%s", diff)
			}
			for _, noise := range []string{"uid", "generation", "resourceVersion", "last-applied", "status:"} {
				if strings.Contains(stdout.String(), noise) {
					t.Errorf("the difference contains %s:\n%s", noise, stdout.String())
				}
			}
		})
	}
}

// errorCode returns the exit code of an error, 0 for nil.
func errorCode(err error) int {
	if err == nil {
		return 0
	}
	return exitCode(err)
}

// changedLines returns the lines of a unified diff that start with + or -.
func changedLines(diff string) []string {
	var lines []string
	for line := range strings.Lines(diff) {
		isHeader := strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+++")
		if !isHeader && strings.ContainsAny(line[:1], "+-") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestDiffOfClusterThatRefuses(t *testing.T) {
	client := newAppliedCluster(t, appliedJob)
	client.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "train", nil)
	})
	docs, err := manifest.Read("job.yaml", strings.NewReader(appliedJob))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = clusterDiffer{client: client, namespace: "team"}.diff(t.Context(), docs, &out, &out)
	if err == nil || exitCode(err) != exitUsage || out.String() != "" {
		t.Errorf("error %v and output %q, want exit code %d and no output", err, out.String(), exitUsage)
	}
}

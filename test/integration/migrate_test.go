package integration

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/vet"
)

// dryRunner creates objects of any kind by dry run, with strict validation and through the webhook.
type dryRunner struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newDryRunner(t *testing.T, m *manager) dryRunner {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(m.Client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(m.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return dryRunner{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups)}
}

// create creates an object in a namespace. The error is a no-match error for a kind that the cluster
// does not have.
func (r dryRunner) create(ctx context.Context, namespace string, o manifest.Object) error {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(o.JSON); err != nil {
		return err
	}
	gvk := obj.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	obj.SetNamespace(namespace)
	_, err = r.client.Resource(mapping.Resource).Namespace(namespace).Create(ctx, obj,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// isReportedRejected reports whether the report of a golden file predicts that the API server rejects the
// object.
func isReportedRejected(t *testing.T, outputPath string, o manifest.Object) bool {
	t.Helper()
	text, err := os.ReadFile(strings.TrimSuffix(outputPath, ".out.yaml") + ".report.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var reports []struct{ Findings []vet.Finding }
	if err := yaml.Unmarshal(text, &reports); err != nil {
		t.Fatalf("%s: %v", outputPath, err)
	}
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Code == "ExtendedResource" && f.Object == strings.ToLower(o.Kind)+"/"+o.Name {
				return true
			}
		}
	}
	return false
}

// testMigratedManifests creates all manifests of the golden files of rollcall migrate by dry run. The API
// server accepts all of them, except those that the report predicts to be rejected.
func testMigratedManifests(t *testing.T, m *manager, ns string) {
	runner := newDryRunner(t, m)
	taken, unknown := 0, map[string]int{}
	testdata := filepath.Join("..", "..", "internal", "migrate", "testdata")
	err := filepath.WalkDir(testdata, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".out.yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		docs, err := manifest.Read(path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		for _, d := range docs {
			for _, o := range d.Objects() {
				err := runner.create(t.Context(), ns, o)
				if meta.IsNoMatchError(err) {
					unknown[o.APIVersion+"/"+o.Kind]++ // the kind belongs to a scheduler that is not installed
					continue
				}
				if err != nil && strings.Contains(err.Error(), "does not create PodGroups in this cluster") {
					unknown["the scheduler of "+o.Name]++ // is a note of the report
					continue
				}
				wantRejected := isReportedRejected(t, path, o)
				if accepted := err == nil; accepted == wantRejected || !accepted && !apierrors.IsInvalid(err) {
					t.Errorf("%s: %s %s: %v; the report predicts a rejection: %t", path, o.Kind, o.Name, err, wantRejected)
				}
				taken++
			}
		}
		return nil
	})
	if err != nil || taken == 0 {
		t.Fatalf("%d objects: %v", taken, err)
	}
	t.Logf("%d objects accepted; skipped because the cluster does not have their kinds: %v", taken, unknown)
}

// buildCommand builds the command rollcall and returns its path.
func buildCommand(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rollcall")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/rollcall")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// pyTorchJobCRD is the part of training-operator's CustomResourceDefinition that an API server
// needs to store PyTorchJobs.
const pyTorchJobCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pytorchjobs.kubeflow.org}
spec:
  group: kubeflow.org
  scope: Namespaced
  names: {plural: pytorchjobs, singular: pytorchjob, kind: PyTorchJob, listKind: PyTorchJobList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// testMigrateFromCluster migrates a PyTorchJob from the cluster and runs the result as a gang.
func testMigrateFromCluster(t *testing.T, m *manager, ns string) {
	apply := func(text string, args ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "object.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := m.Cluster.Kubectl(t.Context(), append([]string{"apply", "-f", file}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	apply(pyTorchJobCRD)
	if err := m.Cluster.WaitForDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	const replica = `{replicas: 1, template: {spec: {containers: [{name: pytorch, image: "example.com/train:1"}]}}}`
	for _, name := range []string{"train", "other"} {
		apply("{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: "+name+"}, "+
			"spec: {pytorchReplicaSpecs: {Master: "+replica+", Worker: "+replica+"}}}",
			"--namespace", ns)
	}
	program := buildCommand(t)
	var out, report bytes.Buffer
	cmd := exec.CommandContext(
		t.Context(), program, "migrate", "--from-cluster", "--kubeconfig", m.Cluster.Kubeconfig(),
		"-n", ns, "pytorchjob/train",
	)
	cmd.Stdout, cmd.Stderr = &out, &report
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, report.String())
	}
	if strings.Contains(out.String(), "other") || strings.Contains(report.String(), "dropped") {
		t.Errorf("the migrated objects differ from the requested objects:\n%s\n%s", out.String(), report.String())
	}
	apply(out.String())
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
}

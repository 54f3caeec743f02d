package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"rollcall.training/gang"
)

const strictPolicy = "cluster: {limits: {size: {max: 1}}}"

// cronJobManifest is a CronJob whose Jobs are gangs of 4 ranks.
const cronJobManifest = `apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: team}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    metadata: {labels: {rollcall.training/framework: pytorch}}
    spec:
      completionMode: Indexed
      completions: 4
      parallelism: 4
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: a.io/b:1, command: [torchrun, x.py]}]}}
`

func writeManifest(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPolicyFromStandardInput verifies that a command either judges by the policy of standard input or fails.
func TestPolicyFromStandardInput(t *testing.T) {
	job, path := writeManifest(t, cleanJob), writePolicy(t, strictPolicy)
	for name, test := range map[string]struct {
		args []string
		want string
		code int
	}{
		"audit judges by the policy": {
			args: []string{"policy", "audit", "--policy", "-", "-f", job}, want: "cluster/size", code: 1,
		},
		"audit needs standard input for one purpose": {
			args: []string{"policy", "audit", "--policy", "-", "-f", "-"}, want: "--policy and --filename", code: exitUsage,
		},
		"diff rejects standard input as the old policy": {
			args: []string{"policy", "diff", "-", path, "-f", job}, want: "must be a file", code: exitUsage,
		},
		"diff rejects standard input as the new policy": {
			args: []string{"policy", "diff", path, "-", "-f", job}, want: "must be a file", code: exitUsage,
		},
		"vet rejects standard input": {
			args: []string{"vet", "--policy", "-", "-f", job}, want: "--policy: must be a file", code: exitUsage,
		},
		"inject rejects standard input": {
			args: []string{"inject", "--policy", "-", "-f", job}, want: "--policy: must be a file", code: exitUsage,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, err := runCommand(t, policyHeader+strictPolicy, test.args...)
			if err == nil || exitCode(err) != test.code || !strings.Contains(stdout+err.Error(), test.want) {
				t.Errorf("error %v, want exit code %d and a text that contains %q; output:\n%s", err, test.code, test.want, stdout)
			}
		})
	}
}

// TestPolicyInputErrors verifies that workloads that cannot be read are no finding.
func TestPolicyInputErrors(t *testing.T) {
	const kubeconfig = "--kubeconfig=testdata/kubeconfig.yaml"
	path := writePolicy(t, strictPolicy)
	for name, args := range map[string][]string{
		"audit of a cluster that does not answer":    {"audit", "--policy", path, "--cluster", kubeconfig},
		"audit without a configuration of a cluster": {"audit", "--policy", path, "--cluster", "--kubeconfig=missing"},
		"diff of a cluster that does not answer":     {"diff", path, path, "--cluster", kubeconfig},
	} {
		t.Run(name, func(t *testing.T) {
			if out, code := runPolicy(t, "", args...); code != exitUsage {
				t.Errorf("exit code %d, want %d: %s", code, exitUsage, out)
			}
		})
	}
}

// TestReadClusterWithoutNamespaces verifies that the workloads are read without the permission to read namespaces.
func TestReadClusterWithoutNamespaces(t *testing.T) {
	labels := map[string]string{gang.LabelFramework: "pytorch"}
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", Labels: labels}}
	client := fake.NewClientset(&job)
	client.PrependReactor("*", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", nil)
	})
	for _, namespace := range []string{"team", ""} {
		t.Run(fmt.Sprintf("namespace %q", namespace), func(t *testing.T) {
			if docs, err := readCluster(t.Context(), client, namespace); err != nil || len(docs) != 1 {
				t.Errorf("%d documents, want 1; error %v", len(docs), err)
			}
		})
	}
}

// TestPolicyDiffOfCronJob verifies that a CronJob is judged by its Jobs, in its namespace.
func TestPolicyDiffOfCronJob(t *testing.T) {
	oldPath, newPath := writePolicy(t, "mode: enforce"), writePolicy(t, strictPolicy)
	out, code := runPolicy(t, cronJobManifest, "diff", oldPath, newPath, "-f", "-")
	const want = "job/nightly-00000000 in team is denied by the new policy only"
	if code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want 1; output does not contain %q:\n%s", code, want, out)
	}
}

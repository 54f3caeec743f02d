package suite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/policy/suite"
)

const requiredPolicy = "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + `
cluster:
  defaults: {runtime: 24h, ttl: 168h}
  limits:
    runtime: {required: true, max: 72h}
    ttl: {required: true}
    gpuHours: {max: 100000}
`

// judge returns the findings for workloads with the policy of this file, in one text for each.
func judge(t *testing.T, workloads []gang.Workload) []string {
	t.Helper()
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	p, problems := policy.Read("policy.yaml", []byte(requiredPolicy), engine.Frameworks())
	if p == nil {
		t.Fatal(problems)
	}
	var findings []string
	for _, v := range (suite.Options{Engine: engine, Policy: p}).Admit(workloads) {
		for _, denial := range v.Denials {
			findings = append(findings, v.Object+" "+denial)
		}
		for _, f := range v.Findings {
			findings = append(findings, fmt.Sprintf("%s %s unknown=%t", v.Object, f.Rule, f.Unknown))
		}
	}
	return findings
}

func readWorkloads(t *testing.T, source string, text []byte) []gang.Workload {
	t.Helper()
	docs, err := manifest.Read(source, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var workloads []gang.Workload
	for _, object := range manifest.ListObjects(docs) {
		w, _, ok, err := object.DecodeWorkload()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			workloads = append(workloads, w)
		}
	}
	return workloads
}

// TestMigratedGangsHaveRequiredRuntime verifies that a required runtime admits every migrated gang of a Job and
// StatefulSets: the Job ends the gang.
func TestMigratedGangsHaveRequiredRuntime(t *testing.T) {
	paths, err := filepath.Glob("../../migrate/testdata/kubeflow/*.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	statefulSets := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		workloads := readWorkloads(t, path, text)
		if !slices.ContainsFunc(workloads, func(w gang.Workload) bool { return w.StatefulSet != nil }) {
			continue
		}
		statefulSets++
		if diff := cmp.Diff([]string(nil), judge(t, workloads), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if statefulSets < 5 {
		t.Errorf("only %d files contain a StatefulSet", statefulSets)
	}
}

const (
	launcherJob = `
apiVersion: batch/v1
kind: Job
metadata:
  name: train-launcher
  labels: {rollcall.training/framework: mpi, rollcall.training/role: launcher}
  annotations: {rollcall.training/roles: "launcher=1,worker=2"}
spec:
  completions: 1
  parallelism: 1
  template: {spec: {restartPolicy: Never, containers: [{name: mpi, image: example.com/mpi:1}]}}
`
	workerSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: train-worker
  labels: {rollcall.training/framework: mpi, rollcall.training/role: worker}
  annotations: {rollcall.training/roles: "launcher=1,worker=2"}
spec:
  replicas: 2
  serviceName: train
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers: [{name: mpi, image: example.com/mpi:1, resources: {limits: {nvidia.com/gpu: "8"}}}]
`
)

func TestRequiredRuntimeOfMembers(t *testing.T) {
	replace := func(text string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			text = string(bytes.ReplaceAll([]byte(text), []byte(pairs[i]), []byte(pairs[i+1])))
		}
		return text
	}
	for name, test := range map[string]struct {
		manifests string
		want      []string
	}{
		"the Job ends the gang": {manifests: launcherJob + "---" + workerSet},
		"the Job has too long a runtime": {
			manifests: workerSet + "---" +
				replace(launcherJob, "  completions", "  activeDeadlineSeconds: 259201\n  completions"),
			want: []string{"job/train-launcher cluster/runtime unknown=false"},
		},
		"the runtime of the Job counts for the accelerators of the StatefulSet": {
			manifests: replace(launcherJob, "  completions", "  activeDeadlineSeconds: 259200\n  completions", "worker=2",
				"worker=200") + "---" + replace(workerSet, "worker=2", "worker=200", "replicas: 2", "replicas: 200"),
			want: []string{
				"job/train-launcher cluster/gpuHours unknown=false", "statefulset/train-worker cluster/gpuHours unknown=false",
			},
		},
		"the Job is not known": {
			manifests: workerSet,
			want: []string{
				"statefulset/train-worker cluster/gpuHours unknown=true", "statefulset/train-worker cluster/runtime unknown=true",
				"statefulset/train-worker cluster/ttl unknown=true",
			},
		},
		"all members must succeed, so the StatefulSet has no runtime": {
			manifests: replace(launcherJob+"---"+workerSet, "annotations: {",
				"annotations: {rollcall.training/success-policy: all, "),
			want: []string{
				"statefulset/train-worker cluster/gpuHours unknown=false", "statefulset/train-worker cluster/runtime unknown=false",
				"statefulset/train-worker cluster/ttl unknown=false",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(t, readWorkloads(t, "train.yaml", []byte(test.manifests)))
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error("findings (-want +got):\n" + diff)
			}
		})
	}
}

package migrate_test

import (
	"slices"
	"strings"
	"testing"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// TestConfigMapTexts checks that a former name in a script counts only for jobs that mount the script.
func TestConfigMapTexts(t *testing.T) {
	const manifests = `kind: ConfigMap
apiVersion: v1
metadata: {name: scripts}
data: {run.sh: "ping train-worker-0"}
---
kind: PyTorchJob
apiVersion: kubeflow.org/v1
metadata: {name: train}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers: [{name: pytorch, image: x}]
          volumes: [{name: v, configMap: {name: MOUNTED}}]
`
	tests := map[string]struct {
		mounted string
		want    bool
	}{
		"job mounts the script":            {mounted: "scripts", want: true},
		"job mounts a different ConfigMap": {mounted: "others"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("x.yaml", strings.NewReader(strings.ReplaceAll(manifests, "MOUNTED", tt.mounted)))
			if err != nil {
				t.Fatal(err)
			}
			report := migrate.Migrator{}.Migrate(docs).Reports[0]
			got := slices.ContainsFunc(report.Entries, func(e source.Entry) bool {
				return strings.Contains(e.Reason, "a ConfigMap")
			})
			if got != tt.want {
				t.Errorf("the report names the ConfigMap: %v, want %v: %v", got, tt.want, report.Entries)
			}
		})
	}
}

// TestNameSuffixOfClaims checks that a copy has its own claims, and that the report names those of the JobSet.
func TestNameSuffixOfClaims(t *testing.T) {
	const jobSet = `kind: JobSet
apiVersion: jobset.x-k8s.io/v1alpha2
metadata: {name: gpt, namespace: team, labels: {rollcall.training/framework: pytorch}}
spec:
  volumeClaimPolicies: [{templates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteMany]}}]}]
  replicatedJobs:
    - name: node
      template:
        spec:
          parallelism: 2
          completions: 2
          template:
            spec:
              restartPolicy: Never
              containers: [{name: a, image: x, volumeMounts: [{name: data, mountPath: /d}]}]
`
	docs, err := manifest.Read("x.yaml", strings.NewReader(jobSet))
	if err != nil {
		t.Fatal(err)
	}
	report := migrate.Migrator{NameSuffix: "-new"}.Migrate(docs).Reports[0]
	if want := "persistentvolumeclaim/data-gpt-new"; !slices.Contains(report.Outputs, want) {
		t.Errorf("outputs %q, want %s", report.Outputs, want)
	}
	const want = "kubectl patch pvc data-gpt -n team "
	if !slices.ContainsFunc(report.Entries, func(e source.Entry) bool { return strings.Contains(e.Action, want) }) {
		t.Errorf("no action contains %q: %v", want, report.Entries)
	}
}

package migrate_test

import (
	"strings"
	"testing"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

// TestNameConflicts checks that migrate does not print two objects of the same name, because the
// second one would overwrite the first one in the cluster.
func TestNameConflicts(t *testing.T) {
	const job = `kind: KIND
apiVersion: kubeflow.org/v1
metadata: {name: train, namespace: NAMESPACE}
spec:
  FIELD:
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: c, image: x}]}}
---
`
	jobOf := func(kind, field, namespace string) string {
		return strings.NewReplacer("KIND", kind, "FIELD", field, "NAMESPACE", namespace).Replace(job)
	}
	pytorch := jobOf("PyTorchJob", "pytorchReplicaSpecs", "a")
	tests := map[string]struct {
		text   string
		failed int
	}{
		"two jobs of one namespace": {
			text:   pytorch + jobOf("JAXJob", "jaxReplicaSpecs", "a"),
			failed: 1,
		},
		"two jobs of different namespaces": {
			text: pytorch + jobOf("JAXJob", "jaxReplicaSpecs", "b"),
		},
		"job and a Job that passes through": {
			text:   "kind: Job\napiVersion: batch/v1\nmetadata: {name: train, namespace: a}\n---\n" + pytorch,
			failed: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("x.yaml", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			for _, r := range (migrate.Migrator{}).Migrate(docs).Reports {
				if r.Failed() {
					failed++
					if !strings.Contains(r.Errors[0], "exists already") {
						t.Errorf("unexpected error: %q", r.Errors)
					}
				}
			}
			if failed != tt.failed {
				t.Errorf("%d jobs were rejected, want %d", failed, tt.failed)
			}
		})
	}
}

package migrate_test

import (
	"strings"
	"testing"

	"rollcall.training/manifest"
	"rollcall.training/migrate"
)

// TestTaken: two objects of one name are not given out, since the second would overwrite
// the first when they are applied.
func TestTaken(t *testing.T) {
	const job = "kind: KIND\napiVersion: kubeflow.org/v1\nmetadata: {name: train, namespace: NAMESPACE}\nspec:\n  FIELD:\n    REPLICA:\n      replicas: 1\n      template: {spec: {containers: [{name: c, image: x}]}}\n---\n"
	pytorch := strings.NewReplacer("KIND", "PyTorchJob", "FIELD", "pytorchReplicaSpecs", "REPLICA", "Worker", "NAMESPACE", "a").Replace(job)
	jax := strings.NewReplacer("KIND", "JAXJob", "FIELD", "jaxReplicaSpecs", "REPLICA", "Worker")
	for name, c := range map[string]struct {
		reason, text string
		failed       int
	}{
		"two jobs":          {"both become the Job train", pytorch + strings.ReplaceAll(jax.Replace(job), "NAMESPACE", "a"), 1},
		"two namespaces":    {"they never meet", pytorch + strings.ReplaceAll(jax.Replace(job), "NAMESPACE", "b"), 0},
		"one that is there": {"a Job of the input that passes through", "kind: Job\napiVersion: batch/v1\nmetadata: {name: train, namespace: a}\n---\n" + pytorch, 1},
	} {
		t.Run(name, func(t *testing.T) {
			docs, err := manifest.Read("x.yaml", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			for _, r := range (migrate.Migrator{}).Migrate(docs).Reports {
				if r.Failed() {
					failed++
					if !strings.Contains(r.Mistakes[0], "there already") {
						t.Errorf("another mistake: %q", r.Mistakes)
					}
				}
			}
			if failed != c.failed {
				t.Errorf("%d were refused, want %d: %s", failed, c.failed, c.reason)
			}
		})
	}
}

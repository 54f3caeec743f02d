package migrate_test

import (
	"slices"
	"strings"
	"testing"

	"rollcall.training/manifest"
	"rollcall.training/migrate"
)

// TestScripts: a former name in a script counts for the job that mounts the script.
func TestScripts(t *testing.T) {
	const config = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: scripts}\ndata: {run.sh: \"ping JOB-worker-0\"}\n---\n"
	const job = "kind: PyTorchJob\napiVersion: kubeflow.org/v1\nmetadata: {name: JOB}\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n      template:\n        spec:\n" +
		"          containers: [{name: pytorch, image: x}]\n          volumes: [{name: v, configMap: {name: MOUNTED}}]\n"
	for name, c := range map[string]struct {
		reason, mounted string
		want            bool
	}{
		"mounted":    {"the script may run in its pods", "scripts", true},
		"of another": {"nobody runs it there", "others", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("JOB", "train", "MOUNTED", c.mounted).Replace(config + job)
			docs, err := manifest.Read("x.yaml", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r := migrate.Migrator{}.Migrate(docs).Reports[0]
			if got := slices.Contains(r.Into, "service/train-worker-0"); got != c.want {
				t.Errorf("an alias: %v, want %v: %s; %v", got, c.want, c.reason, r.Into)
			}
		})
	}
}

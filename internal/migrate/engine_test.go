package migrate_test

import (
	"strings"
	"testing"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
)

// TestInjectedVars checks that migrate removes a variable only if an injector sets it.
func TestInjectedVars(t *testing.T) {
	const jobSet = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, labels: {rollcall.training/framework: FRAMEWORK}}
spec:
  replicatedJobs:
    - name: workers
      template:
        spec:
          parallelism: 2
          template: {spec: {containers: [{name: main, image: x, env: [{name: VARIABLE, value: "VALUE"}]}]}}
`
	tests := map[string]struct {
		framework, variable, value string
		want                       source.Outcome // empty if the variable stays
	}{
		"address of rank 0": {
			framework: "pytorch", variable: "MASTER_ADDR", value: "js-workers-0-0.js", want: source.Preserved},
		"port": {
			framework: "pytorch", variable: "MASTER_PORT", value: "3333", want: source.Preserved},
		"port out of range": {
			framework: "pytorch", variable: "MASTER_PORT", value: "80", want: source.Changed},
		"number of processes that nothing else in the manifest confirms": {
			framework: "pytorch", variable: "WORLD_SIZE", value: "16", want: source.Changed},
		"number that is not a multiple of the pods": {
			framework: "pytorch", variable: "WORLD_SIZE", value: "3", want: source.Changed},
		"number of workers of a framework with one process in each pod": {
			framework: "xgboost", variable: "WORLD_SIZE", value: "16", want: source.Changed},
		"rank as a literal": {
			framework: "jax", variable: "JAX_PROCESS_ID", value: "2", want: source.Changed},
		"address with a port": {
			framework: "jax", variable: "JAX_COORDINATOR_ADDRESS", value: "js-workers-0-0.js:1234", want: source.Preserved},
		"master of Paddle": {
			framework: "paddle", variable: "PADDLE_MASTER", value: "js-workers-0-0.js:1234", want: source.Preserved},
		"trainer ID of Paddle":           {framework: "paddle", variable: "PADDLE_TRAINER_ID", value: "0"},
		"number of trainers of Paddle":   {framework: "paddle", variable: "PADDLE_TRAINERS_NUM", value: "2"},
		"endpoints of Paddle's trainers": {framework: "paddle", variable: "PADDLE_TRAINER_ENDPOINTS", value: "a:1,b:1"},
		"endpoints of Paddle's servers":  {framework: "paddle", variable: "PADDLE_PSERVERS_IP_PORT_LIST", value: "a:1"},
		"variable of the user":           {framework: "pytorch", variable: "NCCL_DEBUG", value: "INFO"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("FRAMEWORK", tt.framework, "VARIABLE", tt.variable, "VALUE", tt.value).Replace(jobSet)
			result := migrate.Migrator{Namespace: "default", Config: webhookConfig}.Migrate(readText(t, text))
			report := result.Reports[0]
			if report.Failed() || len(report.Warnings) > 0 {
				t.Fatalf("errors %q, warnings %q", report.Errors, report.Warnings)
			}
			var got source.Outcome
			for _, e := range report.Entries {
				if e.To == "set by Rollcall" {
					got = e.Outcome
				}
			}
			if got != tt.want {
				t.Errorf("outcome of %s=%s is %q, want %q", tt.variable, tt.value, got, tt.want)
			}
			stays := strings.Contains(string(result.Documents[0].Objects()[0].JSON), `"`+tt.variable+`"`)
			if stays != (tt.want == "") {
				t.Errorf("the new Job has %s: %v", tt.variable, stays)
			}
		})
	}
}

// readText reads manifests from a text.
func readText(t *testing.T, text string) []*manifest.Document {
	t.Helper()
	docs, err := manifest.Read("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

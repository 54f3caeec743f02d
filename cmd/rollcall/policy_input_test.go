package main

import (
	"strings"
	"testing"
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

// TestPolicyDiffOfCronJob verifies that a CronJob is judged by its Jobs, in its namespace.
func TestPolicyDiffOfCronJob(t *testing.T) {
	oldPath, newPath := writePolicy(t, "mode: enforce"), writePolicy(t, strictPolicy)
	out, code := runPolicy(t, cronJobManifest, "diff", oldPath, newPath, "-f", "-")
	const want = "job/nightly-00000000 in team is denied by the new policy only"
	if code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want 1; output does not contain %q:\n%s", code, want, out)
	}
}

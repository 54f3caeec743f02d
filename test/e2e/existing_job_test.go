package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// TestExistingJob runs a Job that its author wrote as a gang, with its own Service, address, port, ranks and
// number of processes. It gets the framework label and nothing else.
func TestExistingJob(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createExampleProgram(t, ns, "pytorch/linear/linear_regression.py")
	for i, manifest := range s.readMigratedManifests(t, "job.yaml", cluster.Torch) {
		if isJob := i == 1; isJob {
			labeled, err := s.KubectlWithInput(
				t.Context(), manifest, "label", "--local", "-f", "-", "rollcall.training/framework=pytorch", "-o", "yaml")
			if err != nil {
				t.Fatal(err)
			}
			manifest = labeled
		}
		if _, err := s.KubectlWithInput(t.Context(), manifest, "--namespace", ns, "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	s.waitForTerminalPhase(t, ns, "ddp-training", lifecycle.Succeeded)
	logs := s.readLogsByRole(t, ns, "ddp-training")
	checkTrainingResults(t, strings.Join(slices.Collect(maps.Values(logs)), "\n"), 4)
}

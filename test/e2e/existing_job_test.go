package e2e

import (
	"maps"
	"os"
	"path/filepath"
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
	program, err := os.ReadFile(filepath.Join(repositoryRoot, "examples", "pytorch", "linear", "linear_regression.py"))
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "linear_regression.py", string(program))
	for i, manifest := range s.readMigratedManifests(t, "job.yaml", cluster.Torch) {
		if isJob := i == 1; isJob {
			manifest, err = s.KubectlWithInput(
				t.Context(), manifest, "label", "--local", "-f", "-", "rollcall.training/framework=pytorch", "-o", "yaml")
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.KubectlWithInput(t.Context(), manifest, "--namespace", ns, "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	s.waitForTerminalPhase(t, ns, "ddp-training", lifecycle.Succeeded)
	logs := s.readLogsByRole(t, ns, "ddp-training")
	checkTrainingResults(t, strings.Join(slices.Collect(maps.Values(logs)), "\n"), 4)
}

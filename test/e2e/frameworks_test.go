package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// applyExample applies an example as its README describes, with another image and optional JSON
// patches of its Job.
func (s *testCluster) applyExample(t *testing.T, ns, example, image string, patches ...string) {
	t.Helper()
	s.applyExampleWithPatches(t, ns, example, image, "", patches...)
}

// applyExampleWithPatches is applyExample with patches for only one Job of the example.
func (s *testCluster) applyExampleWithPatches(t *testing.T, ns, example, image, job string, patches ...string) {
	t.Helper()
	base, err := filepath.Abs(filepath.Join(repositoryRoot, "examples", example))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rel, err := filepath.Rel(dir, base) // kustomize rejects absolute paths
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("namespace: %s\nresources: [%s]\npatches:\n", ns, rel)
	overlay += formatKustomizePatch("",
		fmt.Sprintf(`{op: replace, path: /spec/template/spec/containers/0/image, value: %q}`, image))
	if len(patches) > 0 {
		overlay += formatKustomizePatch(job, patches...)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
}

// formatKustomizePatch returns an entry of a kustomization with JSON patches for one Job, or for
// all Jobs if job is empty.
func formatKustomizePatch(job string, patches ...string) string {
	target := "kind: Job"
	if job != "" {
		target += ", name: " + job
	}
	return fmt.Sprintf("- target: {%s}\n  patch: |-\n    - %s\n", target, strings.Join(patches, "\n    - "))
}

// restrictedPatches make an example comply with the restricted pod security standard, like
// newPodSpec. The examples omit these fields to be short.
var restrictedPatches = []string{
	`{op: add, path: /spec/template/spec/securityContext, ` +
		`value: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}}`,
	`{op: add, path: /spec/template/spec/containers/0/securityContext, ` +
		`value: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`,
}

// trainingResultPattern matches the last line of each rank of an example.
var trainingResultPattern = regexp.MustCompile(`(?m)^rank (\d+) world_size (\d+) loss (\S+) -> (\S+) model (\w+)$`)

// runTrainingExample runs an example until it succeeds. The ranks have different data, so they end
// with the same model only if they communicated.
func runTrainingExample(t *testing.T, example, name string, recipe cluster.Recipe, ranks int, patches ...string) {
	t.Helper()
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.applyExample(t, ns, example, image, append(patches, restrictedPatches...)...)
	s.waitForTerminalPhase(t, ns, name, lifecycle.Succeeded)
	logs := s.readLogsByIndex(t, ns, name)
	if len(logs) != 2 {
		t.Errorf("%d pods, want 2", len(logs))
	}
	seen, models := map[string]bool{}, map[string]bool{}
	for index, text := range logs {
		results := trainingResultPattern.FindAllStringSubmatch(text, -1)
		if len(results) != ranks/2 {
			t.Errorf("pod %s did not print %d result lines:\n%s", index, ranks/2, text)
		}
		for _, line := range results {
			t.Log(line[0])
			if rank := parseFloat(t, line[1]); strconv.Itoa(int(rank)/(ranks/2)) != index || line[2] != strconv.Itoa(ranks) {
				t.Errorf("pod %s has rank %s of %s", index, line[1], line[2])
			}
			if first, last := parseFloat(t, line[3]), parseFloat(t, line[4]); !(last < first) { // the negation also catches NaN
				t.Errorf("rank %s: the loss did not decrease: %v -> %v", line[1], first, last)
			}
			seen[line[1]], models[line[5]] = true, true
		}
	}
	if len(seen) != ranks || len(models) != 1 {
		t.Errorf("%d ranks ended with the models %v, want %d with one", len(seen), models, ranks)
	}
}

func parseFloat(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTensorFlow checks that the strategy reads TF_CONFIG. Without the success policy, the success
// of worker 0 would complete the gang and delete the other pod with its log.
func TestTensorFlow(t *testing.T) {
	runTrainingExample(t, "tensorflow", "train-tensorflow", cluster.TensorFlow, 2,
		`{op: add, path: /metadata/annotations, value: {rollcall.training/success-policy: all}}`)
}

// TestXGBoost checks that rank 0 starts the tracker at the injected address.
func TestXGBoost(t *testing.T) {
	runTrainingExample(t, "xgboost", "train-xgboost", cluster.GradientBoosting, 2)
}

// TestLightGBM checks that every rank builds the list of machines.
func TestLightGBM(t *testing.T) {
	runTrainingExample(t, "lightgbm", "train-lightgbm", cluster.GradientBoosting, 2)
}

// TestPyTorchLinear runs torchrun with two processes in each of two pods.
func TestPyTorchLinear(t *testing.T) {
	runTrainingExample(t, "pytorch/linear", "linear", cluster.Torch, 4)
}

// TestDDPExample trains with the example for GPUs on CPUs, with two processes in each of two pods.
func TestDDPExample(t *testing.T) {
	runTrainingExample(t, "gpu/ddp", "ddp", cluster.Torch, 4, replaceGPUs("train.py")...)
}

// TestPyTorchCNN runs one process per pod without a launcher.
func TestPyTorchCNN(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "pytorch/cnn", "cnn", cluster.Torch, 2)
}

// TestPaddle runs two pods with the same template. One of them becomes the master.
func TestPaddle(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "paddle", "train-paddle", cluster.Paddle, 2)
}

// TestDeepSpeed runs DeepSpeed without a launcher, with the environment of PyTorch.
func TestDeepSpeed(t *testing.T) {
	skipUnlessFullRun(t)
	runTrainingExample(t, "deepspeed", "train-deepspeed", cluster.DeepSpeed, 2)
}

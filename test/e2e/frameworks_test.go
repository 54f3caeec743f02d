package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// apply applies an example as the README has it, but for the image, and for more
// JSON patches of its Job if need be.
func (s *site) apply(t *testing.T, ns, example, image string, patches ...string) {
	t.Helper()
	s.applyTo(t, ns, example, image, "", patches...)
}

// applyTo does the same with patches that are for one Job alone.
func (s *site) applyTo(t *testing.T, ns, example, image, job string, patches ...string) {
	t.Helper()
	base, err := filepath.Abs(filepath.Join(root, "examples", example))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rel, err := filepath.Rel(dir, base) // kustomize takes no absolute path
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("namespace: %s\nresources: [%s]\npatches:\n", ns, rel)
	overlay += patch("", fmt.Sprintf(`{op: replace, path: /spec/template/spec/containers/0/image, value: %q}`, image))
	if len(patches) > 0 {
		overlay += patch(job, patches...)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
}

// patch is an entry of a kustomization: JSON patches for one Job, or for all.
func patch(job string, patches ...string) string {
	target := "kind: Job"
	if job != "" {
		target += ", name: " + job
	}
	return fmt.Sprintf("- target: {%s}\n  patch: |-\n    - %s\n", target, strings.Join(patches, "\n    - "))
}

// unprivileged are patches that let an example run as podSpec lets its programs: as
// the restricted pod security standard wants it. The examples leave that out, to be
// short.
var unprivileged = []string{
	`{op: add, path: /spec/template/spec/securityContext, value: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}}`,
	`{op: add, path: /spec/template/spec/containers/0/securityContext, value: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`,
}

// trained is the line in which a rank of an example says how it ended.
var trained = regexp.MustCompile(`(?m)^rank (\d+) world_size (\d+) loss (\S+) -> (\S+) model (\w+)$`)

// trains runs an example to its end. The ranks have different rows, so they have one
// model only if they met.
func trains(t *testing.T, example, name string, recipe cluster.Recipe, ranks int, patches ...string) {
	t.Helper()
	s := here(t)
	image, err := s.LoadImage(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	s.apply(t, ns, example, image, append(patches, unprivileged...)...)
	s.phase(t, ns, name, gang.Succeeded)
	logs := s.logs(t, ns, name)
	if len(logs) != 2 {
		t.Errorf("%d pods for 2", len(logs))
	}
	seen, models := map[string]bool{}, map[string]bool{}
	for index, text := range logs {
		said := trained.FindAllStringSubmatch(text, -1)
		if len(said) != ranks/2 {
			t.Errorf("pod %s did not say %d times how it ended:\n%s", index, ranks/2, text)
		}
		for _, line := range said {
			t.Log(line[0])
			if rank := number(t, line[1]); strconv.Itoa(int(rank)/(ranks/2)) != index || line[2] != strconv.Itoa(ranks) {
				t.Errorf("pod %s holds rank %s of %s", index, line[1], line[2])
			}
			if first, last := number(t, line[3]), number(t, line[4]); !(last < first) { // so that NaN is no fall
				t.Errorf("rank %s: the loss did not fall: %v -> %v", line[1], first, last)
			}
			seen[line[1]], models[line[5]] = true, true
		}
	}
	if len(seen) != ranks || len(models) != 1 {
		t.Errorf("%d ranks ended with the models %v, want %d with one", len(seen), models, ranks)
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTensorFlow: the strategy reads TF_CONFIG. The end of worker 0 would be the gang's, and take the other's log away.
func TestTensorFlow(t *testing.T) {
	trains(t, "tensorflow", "train-tensorflow", cluster.TensorFlow, 2,
		`{op: add, path: /metadata/annotations, value: {rollcall.training/success-policy: all}}`)
}

// TestXGBoost: rank 0 starts the tracker at the address that it is given.
func TestXGBoost(t *testing.T) { trains(t, "xgboost", "train-xgboost", cluster.Boosting, 2) }

// TestLightGBM: every rank makes the list of machines.
func TestLightGBM(t *testing.T) { trains(t, "lightgbm", "train-lightgbm", cluster.Boosting, 2) }

// TestPyTorchLinear: torchrun starts two processes in each of two pods.
func TestPyTorchLinear(t *testing.T) { trains(t, "pytorch/linear", "linear", cluster.Torch, 4) }

// TestPyTorchCNN: one process in each pod, without a launcher.
func TestPyTorchCNN(t *testing.T) {
	slow(t)
	trains(t, "pytorch/cnn", "cnn", cluster.Torch, 2)
}

// TestPaddle: one template for the pod that becomes the master and for the other.
func TestPaddle(t *testing.T) {
	slow(t)
	trains(t, "paddle", "train-paddle", cluster.Paddle, 2)
}

// TestDeepSpeed: without a launcher, by the variables of torch.
func TestDeepSpeed(t *testing.T) {
	slow(t)
	trains(t, "deepspeed", "train-deepspeed", cluster.DeepSpeed, 2)
}

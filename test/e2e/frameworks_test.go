package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// apply applies an example as the README has it, but for the image, and for more
// JSON patches of its Job if need be.
func (s *site) apply(t *testing.T, ns, example, image string, patches ...string) {
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
	overlay := fmt.Sprintf("namespace: %s\nresources: [%s]\npatches:\n- target: {kind: Job}\n  patch: |-\n", ns, rel)
	replaced := fmt.Sprintf(`{op: replace, path: /spec/template/spec/containers/0/image, value: %q}`, image)
	for _, p := range slices.Concat(patches, []string{replaced}) {
		overlay += "    - " + p + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(t.Context(), "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
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

// trains runs a framework's example to its end. The ranks have different rows, so
// they have one model only if they met.
func trains(t *testing.T, framework string, recipe cluster.Recipe) {
	t.Helper()
	s := here(t)
	image, err := s.LoadImage(t.Context(), recipe)
	if err != nil {
		t.Fatal(err)
	}
	ns, name := s.namespace(t), "train-"+framework
	s.apply(t, ns, framework, image, unprivileged...)
	s.phase(t, ns, name, gang.Succeeded)
	logs := s.logs(t, ns, name)
	if len(logs) != 2 {
		t.Errorf("%d pods for 2 ranks", len(logs))
	}
	models := map[string]bool{}
	for index, text := range logs {
		said := trained.FindStringSubmatch(text)
		if said == nil {
			t.Errorf("rank %s did not say how it ended:\n%s", index, text)
			continue
		}
		t.Log(said[0])
		if said[1] != index || said[2] != "2" {
			t.Errorf("pod %s is rank %s of %s, want rank %s of 2", index, said[1], said[2], index)
		}
		if first, last := number(t, said[3]), number(t, said[4]); !(last < first) { // so that NaN is no fall
			t.Errorf("rank %s: the loss did not fall: %v -> %v", index, first, last)
		}
		models[said[5]] = true
	}
	if len(models) != 1 {
		t.Errorf("the ranks ended with different models: %v", models)
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

// TestTensorFlow: the strategy reads TF_CONFIG.
func TestTensorFlow(t *testing.T) { trains(t, "tensorflow", cluster.TensorFlow) }

// TestXGBoost: rank 0 starts the tracker at the address that it is given.
func TestXGBoost(t *testing.T) { trains(t, "xgboost", cluster.Boosting) }

// TestLightGBM: every rank makes the list of machines.
func TestLightGBM(t *testing.T) { trains(t, "lightgbm", cluster.Boosting) }

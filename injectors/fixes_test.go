package injectors_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/testing/golden"
)

// TestFixes applies the remedies of denied golden cases, one after the other, until only denials
// without a remedy are left. The manifests in the directory existing are those that people write for a
// cluster without Rollcall, so each of their denials needs a remedy.
func TestFixes(t *testing.T) {
	fixed := 0
	for _, c := range golden.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			w := golden.ParseWorkload(t, c.Manifest)
			remaining, applied := applyFixes(t, w)
			fixed += applied
			if strings.Contains(c.Name, "/existing/") && len(remaining) > 0 {
				t.Errorf("these denials have no remedy: %v", remaining.ErrorList().ToAggregate())
			}
		})
	}
	if fixed == 0 {
		t.Error("no golden case has a remedy")
	}
}

// TestFixesOfCorpus does the same for the Jobs and StatefulSets of public repositories.
func TestFixesOfCorpus(t *testing.T) {
	const dir = "../../shared/corpus"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the corpus is not next to the repository: %v", err)
	}
	workloads := 0
	for _, pattern := range []string{"plain/*", "jobs/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, manifest := range readWorkloads(t, file) {
				workloads++
				t.Run(filepath.Base(file), func(t *testing.T) {
					w := golden.ParseWorkload(t, manifest)
					if !w.HasFrameworkLabel() {
						metav1.SetMetaDataLabel(w.Meta(), gang.LabelFramework, "pytorch")
					}
					remaining, applied := applyFixes(t, w)
					t.Logf("%s %s: %d remedies, %d denials are left", w.Kind(), w.Meta().Name, applied, len(remaining))
					for _, d := range remaining {
						t.Log(d.Error)
					}
				})
			}
		}
	}
	if workloads == 0 {
		t.Errorf("%s contains no Job and no StatefulSet", dir)
	}
}

// readWorkloads returns the Jobs and StatefulSets of a file. Templates that are not YAML are ignored.
func readWorkloads(t *testing.T, file string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var workloads [][]byte
	for document := range strings.SplitSeq(string(text), "\n---") {
		var meta metav1.TypeMeta
		if yaml.Unmarshal([]byte(document), &meta) != nil {
			continue
		}
		w, ok := gang.NewWorkload(gang.Kind(meta.Kind))
		isKubernetes := meta.APIVersion == "batch/v1" || meta.APIVersion == "apps/v1"
		if ok && isKubernetes && yaml.Unmarshal([]byte(document), w.Object()) == nil {
			workloads = append(workloads, []byte(document))
		}
	}
	return workloads
}

// applyFixes applies remedies to w until w is admitted or no denial has a remedy. It returns the denials
// that are left, and the number of applied remedies. Each remedy must resolve its denial.
func applyFixes(t *testing.T, w gang.Workload) (remaining gang.Denials, applied int) {
	t.Helper()
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = "default"
	}
	inject := func() gang.Denials {
		result, _ := engine.Inject(w.DeepCopy())
		return result.Denials
	}
	for remaining = inject(); ; applied++ {
		i := slices.IndexFunc(remaining, func(d gang.Denial) bool { return len(d.Fix) > 0 })
		if i < 0 {
			return remaining, applied
		}
		applyFix(t, w, remaining[i].Fix)
		before, problem := remaining, remaining[i].ErrorBody()
		remaining = inject()
		if countDenials(remaining, problem) >= countDenials(before, problem) {
			t.Fatalf("the remedy of this denial does not resolve it: %v", before[i].Error)
		}
	}
}

// countDenials counts the denials with the same text. Their fields can change with each remedy.
func countDenials(denials gang.Denials, text string) (n int) {
	for _, d := range denials {
		if d.ErrorBody() == text {
			n++
		}
	}
	return n
}

func applyFix(t *testing.T, w gang.Workload, fix gang.Fix) {
	t.Helper()
	object, err := json.Marshal(w.Object())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(fix)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(object)
	if err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	fixed, _ := gang.NewWorkload(w.Kind())
	if err := json.Unmarshal(patched, fixed.Object()); err != nil {
		t.Fatal(err)
	}
	w.ReplaceWith(fixed)
}

package docs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/vet"
)

// injectedRecord matches the record of the injection, which changes with each build.
var injectedRecord = regexp.MustCompile(`(?m)^ *rollcall\.training/injected: .*\n`)

// TestGPUExamples renders the Jobs for GPUs, and each of them with each fabric. The tests have neither. They have no
// findings, and the golden files contain what admission makes of the examples, and of the measurement with each fabric.
func TestGPUExamples(t *testing.T) {
	for _, example := range []string{"base", "ddp", "fsdp", "nccl-tests"} {
		plain := render(t, example)
		t.Run(example, func(t *testing.T) { checkPage(t, goldenOf(example), admit(t, plain)) })
		for _, fabric := range []string{"aks-infiniband", "efa", "gke-rdma", "gke-tcpx", "mnnvl", "sriov"} {
			t.Run(example+" with "+fabric, func(t *testing.T) {
				rendered := render(t, example, fabric)
				admitted := admit(t, rendered)
				isChanged := !bytes.Equal(plain, rendered)
				hasCommand := example != "nccl-tests" // gke-rdma changes the command
				if isChanged != (hasCommand || fabric != "gke-rdma") {
					t.Errorf("the fabric changes the example: %t", isChanged)
				}
				if example == "base" {
					checkPage(t, goldenOf(fabric), admitted)
				}
			})
		}
	}
}

func goldenOf(folder string) string { return "testdata/gpu-" + folder + ".yaml" }

// render returns an example for GPUs with fabrics.
func render(t *testing.T, example string, fabrics ...string) []byte {
	t.Helper()
	// A base must have a relative path, which a folder with symbolic links would change.
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../examples/gpu")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(folder, examples)
	if err != nil {
		t.Fatal(err)
	}
	kustomization := "resources: [" + filepath.Join(relative, example) + "]\n"
	for _, fabric := range fabrics {
		kustomization += "components: [" + filepath.Join(relative, fabric) + "]\n"
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// admit returns the workloads of a manifest as admission would change them. It expects no findings and no warnings.
func admit(t *testing.T, text []byte) []byte {
	t.Helper()
	docs, unreadable := manifest.ReadAll("rendered", bytes.NewReader(text))
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	report := vet.Run(docs, unreadable, vet.Options{Engine: engine})
	if len(report.Findings) > 0 {
		t.Errorf("the findings %+v", report.Findings)
	}
	var jobs []*manifest.Document
	for _, d := range docs {
		injections, err := d.Inject("team", engine.Inject)
		if err != nil {
			t.Fatal(err)
		}
		for _, injection := range injections {
			if injection.Err != nil || len(injection.Warnings) > 0 {
				t.Errorf("admission: %v, warnings %v", injection.Err, injection.Warnings.Strings())
			}
			jobs = append(jobs, d)
		}
	}
	if len(jobs) != report.Workloads || report.Workloads == 0 {
		t.Errorf("%d of %d workloads are injected", len(jobs), report.Workloads)
	}
	var out bytes.Buffer
	if err := manifest.Write(&out, manifest.YAML, jobs); err != nil {
		t.Fatal(err)
	}
	return injectedRecord.ReplaceAll(out.Bytes(), nil)
}

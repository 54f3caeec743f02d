package docs_test

import (
	"bytes"
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

// TestGPUExamples renders the Jobs for GPUs, whose fabrics the tests do not have. They have no findings, and the
// golden files contain what admission makes of them.
func TestGPUExamples(t *testing.T) {
	for folder, page := range map[string]string{
		"../examples/gpu/aks-infiniband": "testdata/gpu-aks-infiniband.yaml",
		"../examples/gpu/base":           "testdata/gpu.yaml",
		"../examples/gpu/efa":            "testdata/gpu-efa.yaml",
		"../examples/gpu/fsdp":           "testdata/gpu-fsdp.yaml",
		"../examples/gpu/gke-rdma":       "testdata/gpu-gke-rdma.yaml",
		"../examples/gpu/gke-tcpx":       "testdata/gpu-gke-tcpx.yaml",
		"../examples/gpu/mnnvl":          "testdata/gpu-mnnvl.yaml",
		"../examples/gpu/nccl-tests":     "testdata/gpu-nccl-tests.yaml",
	} {
		t.Run(folder, func(t *testing.T) {
			rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
			if err != nil {
				t.Fatal(err)
			}
			text, err := rendered.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			docs, unreadable := manifest.ReadAll(folder, bytes.NewReader(text))
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
			checkPage(t, page, injectedRecord.ReplaceAll(out.Bytes(), nil))
		})
	}
}

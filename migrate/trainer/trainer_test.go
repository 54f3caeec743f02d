package trainer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/manifest"
	"rollcall.training/migrate"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/trainer"
)

var config = gang.Config{ClusterDomain: gang.DefaultClusterDomain}

func docs(t *testing.T, text string) []*manifest.Document {
	t.Helper()
	out, err := manifest.Read("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// injected migrates a text and returns the workloads as the webhook admits them.
func injected(t *testing.T, m migrate.Migrator, text string) []gang.Workload {
	t.Helper()
	m.Config, m.Namespace = config, "default"
	result := m.Migrate(docs(t, text))
	for _, r := range result.Reports {
		if r.Failed() || len(r.Warnings) > 0 {
			t.Fatalf("%s: mistakes %v, warnings %v", r.Object, r.Mistakes, r.Warnings)
		}
	}
	var out []gang.Workload
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			w, unknown, ok, err := o.Workload()
			if err != nil || len(unknown) > 0 {
				t.Fatalf("%s %s: %v, unknown fields %v", o.Kind, o.Name, err, unknown)
			}
			if !ok {
				continue
			}
			w.Meta().Namespace = "default"
			if _, err := injectors.New(injectors.Builtin(), config).Inject(w); err != nil {
				t.Fatal(err)
			}
			out = append(out, w)
		}
	}
	return out
}

// env are the variables of a container, by name: a value, or the path of a field.
func env(w gang.Workload, container string) map[string]string {
	out := map[string]string{}
	for _, c := range slices.Concat(w.Template().Spec.InitContainers, w.Template().Spec.Containers) {
		if c.Name != container {
			continue
		}
		for _, e := range c.Env {
			out[e.Name] = e.Value
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				out[e.Name] = e.ValueFrom.FieldRef.FieldPath
			}
		}
	}
	return out
}

const index = "metadata.labels['batch.kubernetes.io/job-completion-index']"

// job is a TrainJob of a runtime that Trainer installs.
func job(runtime, spec string) string {
	return fmt.Sprintf("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: train}\nspec: {runtimeRef: {name: %s}, trainer: {%s}}\n", runtime, spec)
}

// TestVariables compares what a container gets with what Trainer 2.3 set, read in its
// plugins. Different on purpose are hosts, which are complete names here, and the port,
// which is the framework's own unless a text names Trainer's.
func TestVariables(t *testing.T) {
	const rank0 = "train-0.train.default.svc.cluster.local"
	for _, c := range []struct {
		reason, runtime, spec string
		want                  map[string]string
	}{
		{"torch: a number of processes", "torch-distributed", "numNodes: 3, numProcPerNode: 4", map[string]string{
			"PET_NNODES": "3", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": index, "PET_MASTER_ADDR": rank0, "PET_MASTER_PORT": "29500"}},
		{"torch: GPUs", "torch-distributed", "numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 8, cpu: 32}}",
			map[string]string{"PET_NPROC_PER_NODE": "8"}}, // auto, which torchrun makes 8 of
		{"torch: CPUs that are requested come before those that are the limit", "torch-distributed", "resourcesPerNode: {requests: {cpu: 1500m}, limits: {cpu: 4}}",
			map[string]string{"PET_NPROC_PER_NODE": "2"}},
		{"torch: CPUs of the limit", "torch-distributed", "resourcesPerNode: {limits: {cpu: 4}}", map[string]string{"PET_NPROC_PER_NODE": "4"}},
		{"torch: no resources", "torch-distributed", "numNodes: 1", map[string]string{"PET_NPROC_PER_NODE": "1", "PET_NNODES": "1"}},
		{"torch: variables of the user's own", "torch-distributed", "numNodes: 2, env: [{name: A, value: b}, {name: MASTER_ADDR, value: train-node-0-0.train}]",
			map[string]string{"A": "b", "MASTER_ADDR": rank0}},
		{"jax", "jax-distributed", "numNodes: 3", map[string]string{
			"JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": index, "JAX_COORDINATOR_ADDRESS": rank0 + ":29500"}},
		{"xgboost", "xgboost-distributed", "numNodes: 3", map[string]string{
			"DMLC_NUM_WORKER": "3", "DMLC_TASK_ID": index, "DMLC_TRACKER_URI": rank0, "DMLC_TRACKER_PORT": "29500"}},
		{"mpi: the launcher", "mlx-distributed", "numNodes: 3, numProcPerNode: 2", map[string]string{"OMPI_MCA_orte_set_default_slots": "2",
			"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10"}},
		{"mpi: the GPUs of a node are its slots", "deepspeed-distributed", "numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}",
			map[string]string{"OMPI_MCA_orte_set_default_slots": "4"}},
	} {
		got := env(injected(t, migrate.Migrator{}, job(c.runtime, c.spec))[0], "node")
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", c.reason, name, got[name], want)
			}
		}
	}
}

// TestNodes counts the pods that a launcher and its workers have.
func TestNodes(t *testing.T) {
	for _, c := range []struct {
		reason, spec string
		workers      int32
	}{
		{"the launcher is a node", "numNodes: 4", 3},
		{"there is always a worker beside a launcher", "numNodes: 1", 1},
		{"the runtime's own number", "image: x", 1},
	} {
		all := injected(t, migrate.Migrator{}, job("deepspeed-distributed", c.spec))
		if len(all) != 2 || all[0].Ranks() != 1 || all[1].Ranks() != c.workers {
			t.Errorf("%s: %d workloads, the second of %d pods, want %d", c.reason, len(all), all[1].Ranks(), c.workers)
		}
	}
}

// TestShipped migrates a TrainJob of each runtime that Trainer installs.
func TestShipped(t *testing.T) {
	names := trainer.Shipped()
	if len(names) < 9 {
		t.Fatalf("only %v", names)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("runtimes", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var tree struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.UnmarshalStrict(text, &map[string]any{}); err != nil || yaml.Unmarshal(text, &tree) != nil || tree.Metadata.Name != name {
			t.Errorf("%s is of %q: %v", name, tree.Metadata.Name, err)
		}
		if got := injected(t, migrate.Migrator{}, job(name, "numNodes: 1")); len(got) == 0 {
			t.Errorf("%s: nothing became of it", name)
		}
	}
}

// TestLooked is the order in which a runtime is looked for.
func TestLooked(t *testing.T) {
	const runtime = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: %s\nmetadata: {name: %s%s}\nspec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: %s}]}}}}}]}}}\n"
	of := func(kind, name, more, image string) string { return fmt.Sprintf(runtime, kind, name, more, image) }
	own := strings.ReplaceAll(job("r", "numNodes: 1"), "{name: r}", "{name: r, kind: TrainingRuntime}")
	for _, c := range []struct {
		reason, text, beside, want string
	}{
		{"the input's wins over the file's", job("r", "numNodes: 1") + "---\n" + of("ClusterTrainingRuntime", "r", "", "input"), of("ClusterTrainingRuntime", "r", "", "file"), "input"},
		{"the file's wins over Trainer's", job("torch-distributed", "numNodes: 1"), of("ClusterTrainingRuntime", "torch-distributed", "", "file"), "file"},
		{"a runtime in a list", job("r", "numNodes: 1"), "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(of("ClusterTrainingRuntime", "r", "", "listed"), "\n", "\n  "), "listed"},
		{"one of the namespace", own, of("TrainingRuntime", "r", ", namespace: default", "own"), "own"},
		{"one that names no namespace is of the default one", own, of("TrainingRuntime", "r", "", "own"), "own"},
		{"one of another namespace is none", own, of("TrainingRuntime", "r", ", namespace: other", "other"), ""},
		{"one of another kind is none", job("r", "numNodes: 1"), of("TrainingRuntime", "r", "", "other"), ""},
	} {
		m := migrate.Migrator{Namespace: "default", Config: config, Runtimes: docs(t, c.beside)}
		result := m.Migrate(docs(t, c.text))
		if c.want == "" {
			if r := result.Reports[0]; !r.Failed() || !strings.Contains(r.Mistakes[0], "--runtimes") {
				t.Errorf("%s: %v", c.reason, r)
			}
			continue
		}
		var out bytes.Buffer
		if err := manifest.Write(&out, manifest.YAML, result.Documents); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "image: "+c.want+"\n") || strings.Contains(out.String(), "kind: ClusterTrainingRuntime") {
			t.Errorf("%s:\n%s\n%v", c.reason, out.String(), result.Reports)
		}
	}
}

// TestPlain names a framework for a runtime that names none.
func TestPlain(t *testing.T) {
	const text = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec: {runtimeRef: {name: plain}, trainer: {numNodes: 2}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: plain}
spec: {template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: x}]}}}}}]}}}
`
	got := injected(t, migrate.Migrator{}, text)
	if len(got) != 1 || got[0].Labelled() || got[0].Ranks() != 2 || len(got[0].Template().Spec.Containers[0].Env) > 0 {
		t.Errorf("without a framework: %+v", got[0].Job)
	}
	got = injected(t, migrate.Migrator{Framework: "jax"}, text)
	if len(got) != 1 || env(got[0], "node")["JAX_NUM_PROCESSES"] != "2" {
		t.Errorf("with one: %+v", got[0].Job)
	}
}

// TestTune is the command that Trainer makes for torchtune.
func TestTune(t *testing.T) {
	for _, c := range []struct{ reason, spec, want string }{
		{"one GPU", "resourcesPerNode: {limits: {nvidia.com/gpu: 1}}, args: [epochs=1]", "tune run full_finetune_single_device --config llama3_2/1B_full_single_device"},
		{"two GPUs", "resourcesPerNode: {limits: {nvidia.com/gpu: 2}}", "tune run --rdzv_endpoint=train-0.train:29500 full_finetune_distributed --config llama3_2/1B_full"},
		{"LoRA on one", "numProcPerNode: 1, args: [model.lora_attn_modules=x]", "tune run lora_finetune_single_device --config llama3_2/1B_lora_single_device"},
		{"QLoRA", "numProcPerNode: 1, args: [model.quantize_base=True]", "tune run lora_finetune_single_device --config llama3_2/1B_qlora_single_device"},
		{"DoRA is no QLoRA", "numProcPerNode: 2, args: [model.quantize_base=True, model.use_dora=True, model.lora_attn_modules=x]", "tune run --rdzv_endpoint=train-0.train:29500 lora_finetune_distributed --config llama3_2/1B_lora"},
	} {
		w := injected(t, migrate.Migrator{}, job("torchtune-llama3.2-1b", "command: [tune, run], "+c.spec))[0]
		at := slices.IndexFunc(w.Template().Spec.Containers, func(c corev1.Container) bool { return c.Name == "node" })
		if got := strings.Join(w.Template().Spec.Containers[at].Command, " "); !strings.HasPrefix(got, c.want+" output_dir=/workspace/output") {
			t.Errorf("%s: %s", c.reason, got)
		}
	}
}

// TestUsed says of each runtime of the input what it went into.
func TestUsed(t *testing.T) {
	const runtime = "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: %s}\nspec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, image: x}]}}}}}]}}}\n"
	text := fmt.Sprintf(runtime, "used") + "---\n" + job("used", "numNodes: 1") + "---\n" + strings.ReplaceAll(job("used", "numNodes: 2"), "name: train}", "name: more}") + fmt.Sprintf(runtime, "other")
	result := migrate.Migrator{Namespace: "default", Config: config}.Migrate(docs(t, text))
	if len(result.Reports) != 4 || len(result.Documents) != 2 {
		t.Fatalf("%d reports, %d documents", len(result.Reports), len(result.Documents))
	}
	if r := result.Reports[0]; !slices.Equal(r.Into, []string{"job.batch/train", "job.batch/more"}) || r.Count(ledger.Carried) != 2 {
		t.Errorf("the used one: %+v", r)
	}
	if r := result.Reports[3]; len(r.Into) != 0 || r.Count(ledger.Changed) != 1 || r.Count(ledger.Lost) != 0 || r.Failed() {
		t.Errorf("the other: %+v", r)
	}
}

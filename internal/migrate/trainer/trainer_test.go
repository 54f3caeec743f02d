package trainer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
)

var testConfig = gang.Config{ClusterDomain: gang.DefaultClusterDomain}

func readDocuments(t *testing.T, text string) []*manifest.Document {
	t.Helper()
	out, err := manifest.Read("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// migrateAndInject migrates a text and returns the workloads as the webhook admits them.
func migrateAndInject(t *testing.T, m migrate.Migrator, text string) []gang.Workload {
	t.Helper()
	m.Config, m.Namespace = testConfig, "default"
	result := m.Migrate(readDocuments(t, text))
	for _, r := range result.Reports {
		if r.Failed() || len(r.Warnings) > 0 {
			t.Fatalf("%s: errors %v, warnings %v", r.Object, r.Errors, r.Warnings)
		}
	}
	var out []gang.Workload
	for _, d := range result.Documents {
		for _, o := range d.Objects() {
			w, unknown, ok, err := o.DecodeWorkload()
			if err != nil || len(unknown) > 0 {
				t.Fatalf("%s %s: %v, unknown fields %v", o.Kind, o.Name, err, unknown)
			}
			if !ok {
				continue
			}
			w.Meta().Namespace = "default"
			if _, err := injectors.NewEngine(injectors.Builtin(), testConfig).Inject(w); err != nil {
				t.Fatal(err)
			}
			out = append(out, w)
		}
	}
	return out
}

// envByName returns the variables of a container: the value, or the path of the field that they read.
func envByName(w gang.Workload, container string) map[string]string {
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

const completionIndex = "$(JOB_COMPLETION_INDEX)"

// trainJobYAML returns a TrainJob that uses a runtime, with the fields of spec.trainer.
func trainJobYAML(runtime, spec string) string {
	return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec: {runtimeRef: {name: %s}, trainer: {%s}}
`, runtime, spec)
}

// TestVariables compares the variables of a container with those of Trainer 2.3, according to its
// plugins. The hostnames are complete names.
func TestVariables(t *testing.T) {
	const rank0 = "train-0.train.default.svc.cluster.local"
	tests := map[string]struct {
		runtime, spec string
		want          map[string]string
	}{
		"torch with a number of processes": {
			runtime: "torch-distributed",
			spec:    "numNodes: 3, numProcPerNode: 4",
			want: map[string]string{
				"PET_NNODES": "3", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": completionIndex,
				"PET_MASTER_ADDR": rank0, "PET_MASTER_PORT": "29500",
			},
		},
		"torch starts a process for each GPU": { // Trainer sets auto, and torchrun counts 8 GPUs
			runtime: "torch-distributed",
			spec:    "numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 8, cpu: 32}}",
			want:    map[string]string{"PET_NPROC_PER_NODE": "8"},
		},
		"torch counts requested CPUs before limits": {
			runtime: "torch-distributed",
			spec:    "resourcesPerNode: {requests: {cpu: 1500m}, limits: {cpu: 4}}",
			want:    map[string]string{"PET_NPROC_PER_NODE": "2"},
		},
		"torch counts the CPU limit without a request": {
			runtime: "torch-distributed",
			spec:    "resourcesPerNode: {limits: {cpu: 4}}",
			want:    map[string]string{"PET_NPROC_PER_NODE": "4"},
		},
		"torch starts one process without resources": {
			runtime: "torch-distributed",
			spec:    "numNodes: 1",
			want:    map[string]string{"PET_NPROC_PER_NODE": "1", "PET_NNODES": "1"},
		},
		"torch preserves variables of the user": {
			runtime: "torch-distributed",
			spec: "numNodes: 2, " +
				"env: [{name: A, value: b}, {name: MASTER_ADDR, value: train-node-0-0.train}]",
			want: map[string]string{"A": "b", "MASTER_ADDR": rank0},
		},
		"jax": {
			runtime: "jax-distributed",
			spec:    "numNodes: 3",
			want: map[string]string{
				"JAX_NUM_PROCESSES": "3", "JAX_PROCESS_ID": completionIndex,
				"JAX_COORDINATOR_ADDRESS": rank0 + ":29500",
			},
		},
		"xgboost": {
			runtime: "xgboost-distributed",
			spec:    "numNodes: 3",
			want: map[string]string{
				"DMLC_NUM_WORKER": "3", "DMLC_TASK_ID": completionIndex, "DMLC_TRACKER_URI": rank0,
				"DMLC_TRACKER_PORT": "29500",
			},
		},
		"launcher of mpi": {
			runtime: "mlx-distributed",
			spec:    "numNodes: 3, numProcPerNode: 2",
			want: map[string]string{
				"OMPI_MCA_orte_set_default_slots": "2", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
				"OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
			},
		},
		"launcher of mpi with a slot for each GPU": {
			runtime: "deepspeed-distributed",
			spec:    "numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}",
			want:    map[string]string{"OMPI_MCA_orte_set_default_slots": "4"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := envByName(migrateAndInject(t, migrate.Migrator{}, trainJobYAML(tt.runtime, tt.spec))[0], "node")
			for variable, want := range tt.want {
				if got[variable] != want {
					t.Errorf("%s = %q, want %q", variable, got[variable], want)
				}
			}
		})
	}
}

// TestResolveNumNodes checks the numbers of pods of a launcher and its workers.
func TestResolveNumNodes(t *testing.T) {
	tests := map[string]struct {
		spec string
		want int32 // workers
	}{
		"launcher is a node":                   {spec: "numNodes: 4", want: 3},
		"launcher has at least one worker":     {spec: "numNodes: 1", want: 1},
		"number of the runtime is the default": {spec: "image: x", want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := migrateAndInject(t, migrate.Migrator{}, trainJobYAML("deepspeed-distributed", tt.spec))
			if len(all) != 2 || all[0].Ranks() != 1 || all[1].Ranks() != tt.want {
				t.Errorf("%d workloads, the second has %d pods, want %d", len(all), all[1].Ranks(), tt.want)
			}
		})
	}
}

// TestBundledRuntimes migrates a TrainJob of each runtime that Trainer installs.
func TestBundledRuntimes(t *testing.T) {
	files, err := filepath.Glob("runtimes/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("only %v: %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tree struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		err = yaml.UnmarshalStrict(text, &map[string]any{})
		if err != nil || yaml.Unmarshal(text, &tree) != nil || tree.Metadata.Name != name {
			t.Errorf("file %s contains the runtime %q: %v", name, tree.Metadata.Name, err)
		}
		if got := migrateAndInject(t, migrate.Migrator{}, trainJobYAML(name, "numNodes: 1")); len(got) == 0 {
			t.Errorf("%s: the result does not contain workloads", name)
		}
	}
}

// runtimeYAML returns a runtime whose only container has the given image. More are further fields of
// its metadata.
func runtimeYAML(kind, name, more, image string) string {
	return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: %s
metadata: {name: %s%s}
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: %s}]}}}
`, kind, name, more, image)
}

// TestRuntimeLookupOrder checks the order in which migrate looks for a runtime.
func TestRuntimeLookupOrder(t *testing.T) {
	job := trainJobYAML("r", "numNodes: 1")
	ownJob := strings.ReplaceAll(job, "{name: r}", "{name: r, kind: TrainingRuntime}")
	clusterRuntime := func(name, image string) string { return runtimeYAML("ClusterTrainingRuntime", name, "", image) }
	tests := map[string]struct {
		text, runtimes string
		want           string // image, or empty for a job that is not migrated
	}{
		"runtime of the input takes precedence over that of a file": {
			text:     job + "---\n" + clusterRuntime("r", "input"),
			runtimes: clusterRuntime("r", "file"),
			want:     "input",
		},
		"runtime of a file takes precedence over that of Trainer": {
			text:     trainJobYAML("torch-distributed", "numNodes: 1"),
			runtimes: clusterRuntime("torch-distributed", "file"),
			want:     "file",
		},
		"runtime in a list is found": {
			text: job,
			runtimes: "apiVersion: v1\nkind: List\nitems:\n- " +
				strings.ReplaceAll(strings.TrimSpace(clusterRuntime("r", "listed")), "\n", "\n  "),
			want: "listed",
		},
		"runtime of the namespace is found": {
			text:     ownJob,
			runtimes: runtimeYAML("TrainingRuntime", "r", ", namespace: default", "own"),
			want:     "own",
		},
		"runtime without a namespace is in the default namespace": {
			text:     ownJob,
			runtimes: runtimeYAML("TrainingRuntime", "r", "", "own"),
			want:     "own",
		},
		"runtime of another namespace is not found": {
			text:     ownJob,
			runtimes: runtimeYAML("TrainingRuntime", "r", ", namespace: other", "other"),
		},
		"runtime of another kind is not found": {
			text:     job,
			runtimes: runtimeYAML("TrainingRuntime", "r", "", "other"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { checkRuntimeLookup(t, tt.text, tt.runtimes, tt.want) })
	}
}

// checkRuntimeLookup checks the image in the result, or that the job is not migrated if it is empty.
func checkRuntimeLookup(t *testing.T, text, runtimes, want string) {
	t.Helper()
	m := migrate.Migrator{Namespace: "default", Config: testConfig, Runtimes: readDocuments(t, runtimes)}
	result := m.Migrate(readDocuments(t, text))
	if want == "" {
		if r := result.Reports[0]; !r.Failed() || !strings.Contains(r.Errors[0], "--runtimes") {
			t.Error(r)
		}
		return
	}
	var out bytes.Buffer
	if err := manifest.Write(&out, manifest.YAML, result.Documents); err != nil {
		t.Fatal(err)
	}
	hasRuntime := strings.Contains(out.String(), "kind: ClusterTrainingRuntime")
	if !strings.Contains(out.String(), "image: "+want+"\n") || hasRuntime {
		t.Errorf("%s\n%v", out.String(), result.Reports)
	}
}

// TestRuntimeWithoutPolicy checks a runtime that does not name a framework.
func TestRuntimeWithoutPolicy(t *testing.T) {
	runtime := runtimeYAML("ClusterTrainingRuntime", "plain", "", "x")
	text := trainJobYAML("plain", "numNodes: 2") + "---\n" + strings.Replace(runtime, "  mlPolicy: {torch: {}}\n", "", 1)
	got := migrateAndInject(t, migrate.Migrator{}, text)
	if len(got) != 1 || got[0].Meta().Labels[gang.LabelFramework] != "generic" || got[0].Ranks() != 2 {
		t.Errorf("without a framework: %+v", got[0].Job)
	}
	got = migrateAndInject(t, migrate.Migrator{Framework: "jax"}, text)
	if len(got) != 1 || envByName(got[0], "node")["JAX_NUM_PROCESSES"] != "2" {
		t.Errorf("with a framework: %+v", got[0].Job)
	}
}

// TestRuntimeReports checks that a runtime is not in the output, and that its report refers to those of the TrainJobs.
func TestRuntimeReports(t *testing.T) {
	text := runtimeYAML("ClusterTrainingRuntime", "used", "", "x") + "---\n" +
		trainJobYAML("used", "numNodes: 1") + "---\n" +
		strings.ReplaceAll(trainJobYAML("used", "numNodes: 2"), "name: train}", "name: more}") + "---\n" +
		runtimeYAML("ClusterTrainingRuntime", "other", "", "x")
	result := migrate.Migrator{Namespace: "default", Config: testConfig}.Migrate(readDocuments(t, text))
	if len(result.Reports) != 4 || len(result.Documents) != 2 {
		t.Fatalf("%d reports, %d documents", len(result.Reports), len(result.Documents))
	}
	for _, r := range []migrate.Report{result.Reports[0], result.Reports[3]} {
		if len(r.Outputs) != 0 || r.Failed() || !strings.HasPrefix(r.Note, "left out: ") {
			t.Errorf("report of a runtime: %+v", r)
		}
	}
}

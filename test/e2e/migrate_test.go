package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/seeds"
)

// document reads one of the documents that the project began with.
func document(t *testing.T, prefix string) seeds.Seed {
	t.Helper()
	all, err := seeds.Read()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the documents are not beside the repository: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if strings.HasPrefix(s.Name, prefix) {
			return s
		}
	}
	t.Fatalf("there is no document %s", prefix)
	return seeds.Seed{}
}

// manifestOf cuts a manifest out of a document.
func manifestOf(t *testing.T, s seeds.Seed, kind, name string) string {
	t.Helper()
	text := s.Named(kind, name)
	if text == "" {
		t.Fatalf("%s holds no %s %s", s.Name, kind, name)
	}
	return text
}

// containers visits the containers of all pod templates in a manifest, of whatever kind
// it is, with the spec that each is in.
func containers(tree any, visit func(spec, container map[string]any)) {
	switch v := tree.(type) {
	case map[string]any:
		if list, ok := v["containers"].([]any); ok {
			for _, c := range list {
				if c, ok := c.(map[string]any); ok {
					visit(v, c)
				}
			}
		}
		for _, child := range v {
			containers(child, visit)
		}
	case []any:
		for _, child := range v {
			containers(child, visit)
		}
	}
}

// standIn lets a manifest run here: with an image that is here, and what else visit
// changes. The rest of it is as its author wrote it.
func standIn(t *testing.T, manifest, image string, visit func(spec, container map[string]any)) string {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &tree); err != nil {
		t.Fatal(err)
	}
	containers(tree, func(spec, c map[string]any) {
		if _, has := c["image"]; has {
			c["image"] = image
		}
		delete(spec, "imagePullSecrets") // of a registry that is not here
		if visit != nil {
			visit(spec, c)
		}
	})
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// programIn puts the ConfigMap "program" into a pod, as its working directory.
func programIn(spec, c map[string]any) {
	c["workingDir"] = "/program"
	c["volumeMounts"] = []any{map[string]any{"name": "program", "mountPath": "/program"}}
	spec["volumes"] = []any{map[string]any{"name": "program", "configMap": map[string]any{"name": "program"}}}
}

// migrates pipes manifests through rollcall migrate into kubectl apply, as a user does.
func (s *site) migrates(t *testing.T, ns string, manifests ...string) {
	t.Helper()
	commandLine := filepath.Join(t.TempDir(), "rollcall")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", commandLine, "./cmd/rollcall")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command line: %v\n%s", err, out)
	}
	var out, report bytes.Buffer
	cmd := exec.CommandContext(t.Context(), commandLine, "migrate", "--namespace", ns, "-f", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(strings.Join(manifests, "\n---\n")), &out, &report
	err := cmd.Run()
	t.Logf("rollcall migrate:\n%s", report.String())
	if err != nil {
		t.Fatalf("rollcall migrate: %v\n%s", err, out.String())
	}
	file := filepath.Join(t.TempDir(), "migrated.yaml")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := s.Kubectl(t.Context(), "--namespace", ns, "apply", "-f", file); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, out.String())
	}
}

// TestMigratePyTorchJob: two replicas of one template that sum a tensor.
func TestMigratePyTorchJob(t *testing.T) {
	s := here(t)
	from := document(t, "000_")
	ns := s.namespace(t)
	s.program(t, ns, "demo.py", from.Program("init_process_group"))
	s.migrates(t, ns, standIn(t, manifestOf(t, from, "PyTorchJob", "torchrun-cpu"), s.training, programIn))
	s.phase(t, ns, "torchrun-cpu", gang.Succeeded)
	for index, text := range s.logs(t, ns, "torchrun-cpu") {
		if want := "rank " + index + " world_size 2 result tensor([2])"; !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
}

// backend stands in for a program that takes the backend as an argument.
const backend = `
import argparse, socket, torch, torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--backend")
dist.init_process_group(p.parse_args().backend)
t = torch.tensor([1])
dist.all_reduce(t)
print(f"process {dist.get_rank()} of {dist.get_world_size()} sum {t.item()} on {socket.gethostname()}", flush=True)
dist.barrier()
`

// TestMigrateMaster: a Master and two Workers, over gloo.
func TestMigrateMaster(t *testing.T) {
	s := here(t)
	ns := s.namespace(t)
	const name = "pytorch-dist-mnist-gloo"
	s.program(t, ns, "mnist.py", backend)
	s.migrates(t, ns, standIn(t, manifestOf(t, document(t, "004_"), "PyTorchJob", name), s.training, func(spec, c map[string]any) {
		programIn(spec, c)
		c["command"] = []any{"python3", "mnist.py"} // the image's own program
	}))
	s.phase(t, ns, name, gang.Succeeded)
	logs := s.logs(t, ns, name)
	for rank := range 3 {
		if want := fmt.Sprintf("process %d of 3 sum 3 on %s-%d", rank, name, rank); !strings.Contains(logs[fmt.Sprint(rank)], want) {
			t.Errorf("rank %d did not print %q:\n%s", rank, want, logs[fmt.Sprint(rank)])
		}
	}
}

// parameterServer is how programs of TensorFlow 1 train, which TensorFlow 2 still
// understands: parameter servers hold the variables and serve for ever, and each worker
// takes steps.
const parameterServer = `
import json, os
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
cluster = tf.train.ClusterSpec(config["cluster"])
server = tf.distribute.Server(cluster, job_name=role, task_index=index)
if role == "ps":
    print("ps", index, "serves", flush=True)
    server.join()
with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
    w = tf.get_variable("w", shape=[], initializer=tf.zeros_initializer())
    loss = tf.square(w - 3.0)
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
with tf.train.MonitoredTrainingSession(master=server.target, is_chief=index == 0,
                                       hooks=[tf.train.StopAtStepHook(last_step=60)]) as session:
    first = last = None
    while not session.should_stop():
        _, last = session.run([train, loss])
        first = last if first is None else first
print(f"{role} {index} of {len(config['cluster']['worker'])} loss {first} -> {last} variables on {w.device}", flush=True)
`

// TestMigrateParameterServer: one parameter server and two workers.
func TestMigrateParameterServer(t *testing.T) {
	slow(t)
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.TensorFlow)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	s.program(t, ns, "train.py", parameterServer)
	// The document has a namespace of its own, and the test has another.
	text := strings.Replace(manifestOf(t, document(t, "004_"), "TFJob", "distributed-training"), `namespace: "kubeflow"`, "namespace: "+ns, 1)
	s.migrates(t, ns, standIn(t, text, image, func(spec, c map[string]any) {
		programIn(spec, c)
		c["command"] = []any{"python3", "train.py"}
	}))
	s.phase(t, ns, "distributed-training-worker", gang.Succeeded)
	logs := s.roleLogs(t, ns, "distributed-training")
	said := regexp.MustCompile(`worker 0 of 2 loss (\S+) -> (\S+) variables on /job:ps`).FindStringSubmatch(logs["worker-0"])
	if said == nil || !(number(t, said[2]) < number(t, said[1])) {
		t.Errorf("worker 0 did not say that its loss fell:\n%s", logs["worker-0"])
	}
	// The author asked for cleanPodPolicy: None, so the servers stay, and are told of the end all the same.
	if set, err := s.client.AppsV1().StatefulSets(ns).Get(t.Context(), "distributed-training-ps", metav1.GetOptions{}); err != nil ||
		set.Labels[gang.LabelPhase] != string(gang.Succeeded) {
		t.Errorf("the parameter servers were not told: %v, %v", set, err)
	}
}

// TestMigrateMPIJob: mpirun with the author's flags, and cleanPodPolicy Running.
func TestMigrateMPIJob(t *testing.T) {
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI4) // the flags are those of that time
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	text, err := os.ReadFile(filepath.Join(root, "examples", "mpi", "hosts.py"))
	if err != nil {
		t.Fatal(err)
	}
	s.program(t, ns, "hosts.py", string(text))
	const name = "tensorflow-benchmarks"
	s.migrates(t, ns, standIn(t, manifestOf(t, document(t, "004_"), "MPIJob", name), image, func(spec, c map[string]any) {
		programIn(spec, c)
		command, _ := c["command"].([]any)
		for i, word := range command {
			if word == "python" { // what follows is the author's program and its flags
				c["command"] = append(command[:i:i], "python3", "/program/hosts.py")
				break
			}
		}
	}))
	s.phase(t, ns, name+"-launcher", gang.Succeeded)
	launcher := ""
	for _, p := range s.pods(t, ns, name) {
		if p.Labels[gang.LabelRole] == gang.RoleLauncher {
			launcher = s.podLog(t, p)
		} else if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			t.Logf("%s still runs", p.Name)
		}
	}
	if want := "processes 2 sum 1 hosts " + name + "-worker-0 " + name + "-worker-1"; !strings.Contains(launcher, want) {
		t.Errorf("the launcher did not print %q:\n%s", want, launcher)
	}
}

// TestMigrateTrainJob: a runtime, and TrainJobs that bring their program by a ConfigMap,
// by a path of the host, and in the image.
func TestMigrateTrainJob(t *testing.T) {
	s := here(t)
	from := document(t, "003_")
	program := from.Program("DistributedDataParallel")
	runtime := manifestOf(t, from, "ClusterTrainingRuntime", "training-runtime-demo")
	light := func(tree map[string]any) { // two nodes of one core each are more than this machine has
		maps.Copy(tree, map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}})
	}
	for _, c := range []struct {
		name  string
		slow  bool
		adapt func(t *testing.T, ns string, text string) (string, string) // the TrainJob, and the image of the runtime
	}{
		{"configmap", false, func(t *testing.T, ns, text string) (string, string) {
			file := filepath.Join(t.TempDir(), "pytorch-demo.py")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Kubectl(t.Context(), "--namespace", ns, "create", "configmap", "pytorch-demo-script", "--from-file="+file); err != nil {
				t.Fatal(err)
			}
			return text, s.training
		}},
		{"hostpath", true, func(t *testing.T, ns, text string) (string, string) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "pytorch-demo.py"), []byte(program), 0o644); err != nil { //nolint:gosec // pods read it
				t.Fatal(err)
			}
			return strings.Replace(text, "/data/kubeflow-training/scripts", dir, 1), s.training
		}},
		{"image", true, func(t *testing.T, ns, text string) (string, string) {
			image, err := s.LoadImage(t.Context(), cluster.Overlay{Name: "pytorch-demo", Base: cluster.Torch,
				Files: map[string]string{"/workspace/pytorch-demo.py": program}})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Replace(text, "pytorch-demo:latest", image, 1), "example.com/overridden:1"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow {
				slow(t)
			}
			ns := s.namespace(t)
			name := "trainjob-demo-with-" + c.name
			text, image := c.adapt(t, ns, manifestOf(t, from, "TrainJob", name))
			var job map[string]any
			if err := yaml.Unmarshal([]byte(text), &job); err != nil {
				t.Fatal(err)
			}
			trainer := job["spec"].(map[string]any)["trainer"].(map[string]any)
			light(trainer["resourcesPerNode"].(map[string]any))
			adapted, err := yaml.Marshal(job)
			if err != nil {
				t.Fatal(err)
			}
			s.migrates(t, ns, standIn(t, runtime, image, nil), string(adapted))
			s.phase(t, ns, name, gang.Succeeded)
			all := ""
			for _, text := range s.logs(t, ns, name) {
				all += text
			}
			for rank := range 4 { // two nodes with two processes each
				if want := fmt.Sprintf("RANK=%d, WORLD_SIZE=4", rank); !strings.Contains(all, want) {
					t.Errorf("%q is missing:\n%s", want, all)
				}
			}
			if !strings.Contains(all, "Epoch [5/5]") {
				t.Errorf("nobody came to the last epoch:\n%s", all)
			}
		})
	}
}

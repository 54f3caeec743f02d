package e2e

import (
	"bytes"
	"context"
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
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/seeds"
	"rollcall.training/test/wait"
)

// readSeed reads one of the seed documents.
func readSeed(t *testing.T, prefix string) seeds.Seed {
	t.Helper()
	all, err := seeds.Read()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the documents do not exist next to the repository: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if strings.HasPrefix(s.Name, prefix) {
			return s
		}
	}
	t.Fatalf("document %s does not exist", prefix)
	return seeds.Seed{}
}

// extractManifest returns a manifest of a document.
func extractManifest(t *testing.T, s seeds.Seed, kind, name string) string {
	t.Helper()
	text := s.FindManifest(kind, name)
	if text == "" {
		t.Fatalf("%s does not contain %s %s", s.Name, kind, name)
	}
	return text
}

// visitContainers visits the containers of all pod templates of a manifest of any kind, each with
// its pod spec.
func visitContainers(tree any, visit func(spec, container map[string]any)) {
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
			visitContainers(child, visit)
		}
	case []any:
		for _, child := range v {
			visitContainers(child, visit)
		}
	}
}

// adaptManifest adapts a manifest to this cluster: it replaces the image and calls visit for each
// container. Everything else stays as the author wrote it.
func adaptManifest(t *testing.T, manifest, image string, visit func(spec, container map[string]any)) string {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &tree); err != nil {
		t.Fatal(err)
	}
	visitContainers(tree, func(spec, c map[string]any) {
		if _, has := c["image"]; has {
			c["image"] = image
		}
		delete(spec, "imagePullSecrets") // they belong to a registry that is not available
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

// mountProgram mounts the ConfigMap "program" as the working directory of a container.
func mountProgram(spec, c map[string]any) {
	c["workingDir"] = "/program"
	c["volumeMounts"] = []any{map[string]any{"name": "program", "mountPath": "/program"}}
	spec["volumes"] = []any{map[string]any{"name": "program", "configMap": map[string]any{"name": "program"}}}
}

// migrateAndApply pipes manifests through rollcall migrate into kubectl apply, as a user does.
func (s *testCluster) migrateAndApply(t *testing.T, ns string, manifests ...string) {
	t.Helper()
	commandLine := filepath.Join(t.TempDir(), "rollcall")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", commandLine, "./cmd/rollcall")
	build.Dir = repositoryRoot
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
	if text, err := s.Kubectl(
		t.Context(), "--namespace", ns, "apply", "--server-side", "--validate=strict", "-f", file,
	); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, out.String())
	}
}

// TestMigratePyTorchJob migrates two replicas of one template that sum a tensor.
func TestMigratePyTorchJob(t *testing.T) {
	s := requireCluster(t)
	from := readSeed(t, "000_")
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "demo.py", from.FindProgram("init_process_group"))
	s.migrateAndApply(
		t, ns, adaptManifest(t, extractManifest(t, from, "PyTorchJob", "torchrun-cpu"), s.trainingImage, mountProgram),
	)
	s.waitForTerminalPhase(t, ns, "torchrun-cpu", lifecycle.Succeeded)
	for index, text := range s.readLogsByIndex(t, ns, "torchrun-cpu") {
		if want := "rank " + index + " world_size 2 result tensor([2])"; !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
}

// backendProgram replaces a program that takes the backend as an argument.
const backendProgram = `
import argparse, socket, torch, torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--backend")
dist.init_process_group(p.parse_args().backend)
t = torch.tensor([1])
dist.all_reduce(t)
print(f"process {dist.get_rank()} of {dist.get_world_size()} sum {t.item()} on {socket.gethostname()}", flush=True)
dist.barrier()
`

// TestMigratePyTorchMaster migrates a Master and two Workers that use gloo.
func TestMigratePyTorchMaster(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	const name = "pytorch-dist-mnist-gloo"
	s.createProgram(t, ns, "mnist.py", backendProgram)
	s.migrateAndApply(t, ns, adaptManifest(t, extractManifest(
		t, readSeed(t, "004_"), "PyTorchJob", name,
	), s.trainingImage, func(spec, c map[string]any) {
		mountProgram(spec, c)
		c["command"] = []any{"python3", "mnist.py"} // use the program of the image
	}))
	s.waitForTerminalPhase(t, ns, name, lifecycle.Succeeded)
	logs := s.readLogsByIndex(t, ns, name)
	for rank := range 3 {
		if want := fmt.Sprintf("process %d of 3 sum 3 on %s-%d",
			rank, name, rank); !strings.Contains(logs[fmt.Sprint(rank)], want) {
			t.Errorf("rank %d did not print %q:\n%s", rank, want, logs[fmt.Sprint(rank)])
		}
	}
}

// parameterServerProgram trains as programs of TensorFlow 1 do, which TensorFlow 2 still supports.
// Parameter servers hold the variables and run indefinitely, and the chief and each worker take steps.
// An evaluator is not in the cluster: it reads the checkpoint after the last step in /model.
const parameterServerProgram = `
import json, os, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
roles = ",".join(sorted(config["cluster"]))
if role == "evaluator":
    while not (path := tf.train.latest_checkpoint("/model")) or tf.train.load_variable(path, "global_step") < 60:
        time.sleep(1)
    print(role, index, "of", roles, "loss", (tf.train.load_variable(path, "w") - 3.0) ** 2, flush=True)
    raise SystemExit
cluster = tf.train.ClusterSpec(config["cluster"])
chief = "chief" if "chief" in config["cluster"] else "worker"
server = tf.distribute.Server(cluster, job_name=role, task_index=index)
if role == "ps":
    print("ps", index, "serves", flush=True)
    server.join()
with tf.device(tf.train.replica_device_setter(worker_device=f"/job:{role}/task:{index}", cluster=cluster)):
    w = tf.get_variable("w", shape=[], initializer=tf.zeros_initializer())
    loss = tf.square(w - 3.0)
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
with tf.train.MonitoredTrainingSession(master=server.target, is_chief=(role, index) == (chief, 0),
                                       checkpoint_dir="/model" if os.path.isdir("/model") else None,
                                       hooks=[tf.train.StopAtStepHook(last_step=60)]) as session:
    first = last = None
    while not session.should_stop():
        _, last = session.run([train, loss])
        first = last if first is None else first
workers = len(config["cluster"]["worker"])
print(f"{role} {index} of {workers} loss {first} -> {last} variables on {w.device}", flush=True)
`

// TestMigrateParameterServer migrates one parameter server and two workers.
func TestMigrateParameterServer(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.TensorFlow)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.py", parameterServerProgram)
	// The namespace of the document is replaced by the namespace of the test.
	text := strings.Replace(
		extractManifest(
			t, readSeed(t, "004_"), "TFJob", "distributed-training",
		), `namespace: "kubeflow"`, "namespace: "+ns, 1,
	)
	s.migrateAndApply(t, ns, adaptManifest(t, text, image, func(spec, c map[string]any) {
		mountProgram(spec, c)
		c["command"] = []any{"python3", "train.py"}
	}))
	s.waitForTerminalPhase(t, ns, "distributed-training-worker", lifecycle.Succeeded)
	logs := s.readLogsByRole(t, ns, "distributed-training")
	loss := regexp.MustCompile(
		`worker 0 of 2 loss (\S+) -> (\S+) variables on /job:ps`,
	).FindStringSubmatch(logs["worker-0"])
	if loss == nil || !(parseFloat(t, loss[2]) < parseFloat(t, loss[1])) {
		t.Errorf("worker 0 did not print its loss:\n%s", logs["worker-0"])
	}
	// The author set cleanPodPolicy: None, so the servers keep running. Their status must still
	// report the success.
	wait.For(t, "the success of the parameter servers", func(ctx context.Context) error {
		set, err := s.client.AppsV1().StatefulSets(ns).Get(ctx, "distributed-training-ps", metav1.GetOptions{})
		if phase := set.Labels[gang.LabelPhase]; err == nil && phase != string(lifecycle.Succeeded) {
			return fmt.Errorf("phase %s", phase)
		}
		return err
	})
}

// TestMigrateMPIJob migrates an mpirun with the author's flags and cleanPodPolicy Running.
func TestMigrateMPIJob(t *testing.T) {
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.OpenMPI4) // the flags require this version
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.createExampleProgram(t, ns, "mpi/hosts.py")
	const name = "tensorflow-benchmarks"
	s.migrateAndApply(t, ns, adaptManifest(t, extractManifest(
		t, readSeed(t, "004_"), "MPIJob", name,
	), image, func(spec, c map[string]any) {
		mountProgram(spec, c)
		command, _ := c["command"].([]any)
		for i, word := range command {
			if word == "python" { // the author's program and its flags follow
				c["command"] = append(command[:i:i], "python3", "/program/hosts.py")
				break
			}
		}
	}))
	s.waitForTerminalPhase(t, ns, name+"-launcher", lifecycle.Succeeded)
	launcher := ""
	for _, p := range s.listPods(t, ns, name) {
		if p.Labels[gang.LabelRole] == gang.RoleLauncher {
			launcher = s.readPodLog(t, p)
		} else if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			t.Logf("%s still runs", p.Name)
		}
	}
	if want := "processes 2 sum 1 hosts " + name + "-worker-0 " + name + "-worker-1"; !strings.Contains(launcher, want) {
		t.Errorf("the launcher did not print %q:\n%s", want, launcher)
	}
}

// TestMigrateTrainJob migrates a runtime with TrainJobs whose program is in a ConfigMap, on a path
// of the host, or in the image.
func TestMigrateTrainJob(t *testing.T) {
	s := requireCluster(t)
	from := readSeed(t, "003_")
	program := from.FindProgram("DistributedDataParallel")
	runtime := extractManifest(t, from, "ClusterTrainingRuntime", "training-runtime-demo")
	light := func(tree map[string]any) { // this machine does not have two nodes of one core each
		maps.Copy(tree, map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}})
	}
	for _, c := range []struct {
		name  string
		slow  bool
		adapt func(t *testing.T, ns string, text string) (string, string) // returns the TrainJob and the image of the runtime
	}{
		{"configmap", false, func(t *testing.T, ns, text string) (string, string) {
			file := filepath.Join(t.TempDir(), "pytorch-demo.py")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Kubectl(
				t.Context(), "--namespace", ns, "create", "configmap", "pytorch-demo-script", "--from-file="+file,
			); err != nil {
				t.Fatal(err)
			}
			return text, s.trainingImage
		}},
		{"hostpath", true, func(t *testing.T, ns, text string) (string, string) {
			dir := t.TempDir()
			if err := os.WriteFile(
				filepath.Join(dir, "pytorch-demo.py"), []byte(program), 0o644,
			); err != nil { // pods read it
				t.Fatal(err)
			}
			return strings.Replace(text, "/data/kubeflow-training/scripts", dir, 1), s.trainingImage
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
				skipUnlessFullRun(t)
			}
			ns := s.createNamespace(t)
			name := "trainjob-demo-with-" + c.name
			text, image := c.adapt(t, ns, extractManifest(t, from, "TrainJob", name))
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
			s.migrateAndApply(t, ns, adaptManifest(t, runtime, image, nil), string(adapted))
			s.waitForTerminalPhase(t, ns, name, lifecycle.Succeeded)
			all := ""
			for _, text := range s.readLogsByIndex(t, ns, name) {
				all += text
			}
			for rank := range 4 { // two nodes with two processes each
				if want := fmt.Sprintf("RANK=%d, WORLD_SIZE=4", rank); !strings.Contains(all, want) {
					t.Errorf("%q is missing:\n%s", want, all)
				}
			}
			if !strings.Contains(all, "Epoch [5/5]") {
				t.Errorf("no rank reached the last epoch:\n%s", all)
			}
		})
	}
}

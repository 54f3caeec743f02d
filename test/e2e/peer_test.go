package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// fall lets rank FALLS fall in its 20th step, when it has got what the other sent. A rank of
// LightGBM waits for ever for one that has closed its connection in good order.
const fall = `
import os, sys, time
def fall(rank, step):
    if rank == int(os.environ["FALLS"]) and step == 20:
        time.sleep(1)
        raise RuntimeError("a rank says why it falls")
    time.sleep(0.05)
`

// Programs that talk without end.
const (
	fallTorch = fall + `
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(10000):
    dist.all_reduce(torch.ones(100)); fall(dist.get_rank(), step)
`
	fallPaddle = fall + `
import paddle, paddle.distributed as dist
dist.init_parallel_env()
for step in range(10000):
    dist.all_reduce(paddle.ones([100])); fall(dist.get_rank(), step)
`
	fallTensorFlow = fall + `
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def total():
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.ones([10])), axis=None)
for step in range(10000):
    total(); fall(strategy.cluster_resolver.task_id, step)
`
	// A process of JAX that ends by an exception waits for the others to end, so it ends at once.
	fallJAX = fall + `
import jax, jax.numpy as jnp
jax.distributed.initialize()
total = jax.pmap(lambda x: jax.lax.psum(x, "d"), axis_name="d")
try:
    for step in range(10000):
        total(jnp.ones(jax.local_device_count())).block_until_ready(); fall(jax.process_index(), step)
except RuntimeError as e:
    print(e, file=sys.stderr, flush=True)
    os._exit(1)
`
)

// fallingExample is the program of an example that falls in its 20th round.
func fallingExample(t *testing.T, example string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", example, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	return fall + strings.NewReplacer(append(changes, "num_boost_round=20", "num_boost_round=10000")...).Replace(string(text))
}

// TestPeers: when a rank falls, the others fail since they lost it, and what they say then
// tells so: at the same time as the first, by whatever clock, they are not taken for it.
func TestPeers(t *testing.T) {
	slow(t)
	s := here(t)
	for name, c := range map[string]struct {
		framework string
		recipe    cluster.Recipe
		program   string
		command   []string
		falls     string // the rank that does; 1 unless said
	}{
		"pytorch": {"pytorch", cluster.Torch, fallTorch, []string{"python3"}, ""},
		// Its reports leave no room for what the workers say.
		"torchrun":   {"pytorch", cluster.Torch, fallTorch, []string{"torchrun", "--nproc-per-node=4"}, "5"},
		"paddle":     {"paddle", cluster.Paddle, fallPaddle, []string{"python3", "-m", "paddle.distributed.launch"}, ""},
		"tensorflow": {"tensorflow", cluster.TensorFlow, fallTensorFlow, []string{"python3"}, ""},
		"jax":        {"jax", cluster.JAX, fallJAX, []string{"python3"}, ""},
		"xgboost": {"xgboost", cluster.Boosting, fallingExample(t, "xgboost",
			"verbose_eval=False)", "verbose_eval=False, callbacks=[Fall()])",
			"with meeting:", "class Fall(xgb.callback.TrainingCallback):\n    def after_iteration(self, model, step, log):\n        fall(rank, step)\n\nwith meeting:"), []string{"python3"}, ""},
		"lightgbm": {"lightgbm", cluster.Boosting, fallingExample(t, "lightgbm",
			"callbacks=[", "callbacks=[lambda e: fall(rank, e.iteration), "), []string{"python3"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			image, err := s.LoadImage(t.Context(), c.recipe)
			if err != nil {
				t.Fatal(err)
			}
			ns := s.namespace(t)
			s.program(t, ns, "fall.py", c.program)
			spec := s.podSpec(append(c.command, "fall.py")...)
			spec.Containers[0].Image = image
			spec.Containers[0].Env = []corev1.EnvVar{{Name: "OMP_NUM_THREADS", Value: "1"}, {Name: "FALLS", Value: cmp.Or(c.falls, "1")}}
			s.labelled(t, ns, "train", map[string]string{gang.LabelFramework: c.framework}, 2,
				map[string]string{gang.AnnotationRestartPolicy: string(gang.RestartPod)}, spec)
			pods := s.fallen(t, ns, "train", 2)
			now := metav1.Now()
			for _, p := range pods {
				end := p.Status.ContainerStatuses[0].State.Terminated
				t.Logf("rank %s ended with code %d at %s", index(p), end.ExitCode, end.FinishedAt.Format(time.TimeOnly))
				end.FinishedAt = now
			}
			first := gang.FirstFall(pods, 0, gang.Watch{})
			if first == nil || first.Rank != 1 || c.falls == "" && (first.Peer || !strings.Contains(first.Message, "a rank says why it falls")) {
				t.Errorf("the first of them is %+v", first)
			}
		})
	}
}

// fallen waits until a pod of each rank has failed, and returns the first of each.
func (s *site) fallen(t *testing.T, ns, name string, ranks int) []corev1.Pod {
	t.Helper()
	first := map[string]corev1.Pod{}
	eventually(t, "the fall of all ranks", func(context.Context) error {
		for _, p := range s.pods(t, ns, name) {
			if _, ok := first[index(p)]; !ok && p.Status.Phase == corev1.PodFailed {
				first[index(p)] = p
			}
		}
		if len(first) < ranks {
			return fmt.Errorf("%d of %d fell", len(first), ranks)
		}
		return nil
	})
	var out []corev1.Pod
	for _, p := range first {
		out = append(out, p)
	}
	return out
}

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// failureSnippet makes rank FAILING_RANK fail in its 20th step, after it has received the data of
// the other rank. Otherwise a rank of LightGBM waits indefinitely for a peer that closed its
// connection cleanly.
const failureSnippet = `
import os, sys, time
def fail_at_step(rank, step):
    if rank == int(os.environ["FAILING_RANK"]) and step == 20:
        time.sleep(1)
        raise RuntimeError("rank reports its failure")
    time.sleep(0.05)
`

// Programs that communicate continuously.
const (
	failingTorchProgram = failureSnippet + `
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(10000):
    dist.all_reduce(torch.ones(100)); fail_at_step(dist.get_rank(), step)
`
	failingPaddleProgram = failureSnippet + `
import paddle, paddle.distributed as dist
dist.init_parallel_env()
for step in range(10000):
    dist.all_reduce(paddle.ones([100])); fail_at_step(dist.get_rank(), step)
`
	failingTensorFlowProgram = failureSnippet + `
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def total():
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.ones([10])), axis=None)
for step in range(10000):
    total(); fail_at_step(strategy.cluster_resolver.task_id, step)
`
	// A JAX process waits for its peers after an exception, so this program exits immediately.
	failingJAXProgram = failureSnippet + `
import jax, jax.numpy as jnp
jax.distributed.initialize()
total = jax.pmap(lambda x: jax.lax.psum(x, "d"), axis_name="d")
try:
    for step in range(10000):
        total(jnp.ones(jax.local_device_count())).block_until_ready(); fail_at_step(jax.process_index(), step)
except RuntimeError as e:
    print(e, file=sys.stderr, flush=True)
    os._exit(1)
`
)

// buildFailingExample returns the program of an example, changed to fail in its 20th round.
func buildFailingExample(t *testing.T, example string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repositoryRoot, "examples", example, "train.py"))
	if err != nil {
		t.Fatal(err)
	}
	return failureSnippet + strings.NewReplacer(
		append(changes, "num_boost_round=20", "num_boost_round=10000")...,
	).Replace(string(text))
}

// TestLostPeerMessages checks the termination messages of ranks that fail because they lost a peer.
// With equal times of failure, none of them may become the first failure.
func TestLostPeerMessages(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	for name, c := range map[string]struct {
		framework   string
		recipe      cluster.Recipe
		program     string
		command     []string
		failingRank string // defaults to "1"
	}{
		"pytorch": {"pytorch", cluster.Torch, failingTorchProgram, []string{"python3"}, ""},
		// torchrun's reports replace the output of its workers.
		"torchrun": {"pytorch", cluster.Torch, failingTorchProgram, []string{"torchrun", "--nproc-per-node=4"}, "5"},
		"paddle": {
			"paddle",
			cluster.Paddle,
			failingPaddleProgram,
			[]string{"python3", "-m", "paddle.distributed.launch"},
			"",
		},
		"tensorflow": {"tensorflow", cluster.TensorFlow, failingTensorFlowProgram, []string{"python3"}, ""},
		"jax":        {"jax", cluster.JAX, failingJAXProgram, []string{"python3"}, ""},
		"xgboost": {"xgboost", cluster.GradientBoosting, buildFailingExample(t, "xgboost",
			"verbose_eval=False)", "verbose_eval=False, callbacks=[FailAtStep()])",
			"with meeting:",
			"class FailAtStep(xgb.callback.TrainingCallback):\n    def after_iteration(self, model, step, log):\n"+
				"        fail_at_step(rank, step)\n\nwith meeting:"), []string{"python3"}, ""},
		"lightgbm": {"lightgbm", cluster.GradientBoosting, buildFailingExample(t, "lightgbm",
			"callbacks=[", "callbacks=[lambda e: fail_at_step(rank, e.iteration), "), []string{"python3"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			image, err := s.LoadImage(t.Context(), c.recipe)
			if err != nil {
				t.Fatal(err)
			}
			ns := s.createNamespace(t)
			s.createProgram(t, ns, "fail.py", c.program)
			spec := s.newPodSpec(append(c.command, "fail.py")...)
			spec.Containers[0].Image = image
			spec.Containers[0].Env = []corev1.EnvVar{
				{Name: "OMP_NUM_THREADS", Value: "1"}, {Name: "FAILING_RANK", Value: cmp.Or(c.failingRank, "1")},
			}
			s.createLabeledJob(t, ns, "train", map[string]string{gang.LabelFramework: c.framework}, 2,
				map[string]string{gang.AnnotationRestartPolicy: string(gang.RestartPolicyPod)}, spec)
			pods := s.waitForFailedPods(t, ns, "train", 2)
			// If several workers of a pod failed, the report of torchrun fills the message, and only the times are left.
			isFull := slices.ContainsFunc(pods, func(p corev1.Pod) bool {
				return strings.Contains(p.Status.ContainerStatuses[0].State.Terminated.Message, "\n[1]:\n")
			})
			now := metav1.Now()
			for _, p := range pods {
				end := p.Status.ContainerStatuses[0].State.Terminated
				t.Logf("rank %s ended with code %d at %s", podIndex(p), end.ExitCode, end.FinishedAt.Format(time.TimeOnly))
				if !isFull {
					end.FinishedAt = now
				}
			}
			first := failure.First(pods, 0, failure.Context{})
			if first == nil || first.Rank != 1 ||
				c.failingRank == "" && (first.LostPeer || !strings.Contains(first.Message, "rank reports its failure")) {
				t.Errorf("the first failure is %+v", first)
			}
		})
	}
}

// waitForFailedPods waits until a pod of each rank has failed, and returns the first failed pod of
// each.
func (s *testCluster) waitForFailedPods(t *testing.T, ns, name string, ranks int) []corev1.Pod {
	t.Helper()
	first := map[string]corev1.Pod{}
	wait.For(t, "the failure of all ranks", func(context.Context) error {
		for _, p := range s.listPods(t, ns, name) {
			if _, ok := first[podIndex(p)]; !ok && p.Status.Phase == corev1.PodFailed {
				first[podIndex(p)] = p
			}
		}
		if len(first) < ranks {
			return fmt.Errorf("%d of %d failed", len(first), ranks)
		}
		return nil
	})
	var out []corev1.Pod
	for _, p := range first {
		out = append(out, p)
	}
	return out
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// checkpointProgram trains a model with all ranks and writes a checkpoint after each step. After a
// restart, it continues from the checkpoint. FAULT makes rank 1 fail once.
const checkpointProgram = `
import os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
start, at, steps = 0, "/state/checkpoint.pt", int(os.environ["STEPS"])
if os.path.exists(at):
    saved = torch.load(at)
    start = saved["step"]
    model.module.load_state_dict(saved["model"])
print(f"rank {rank} of {world} starts at step {start}", flush=True)
torch.manual_seed(100 + rank)
for step in range(start, steps):
    x = torch.randn(32, 8)
    loss = ((model(x) - x.sum(dim=1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 0:
        torch.save({"step": step + 1, "model": model.module.state_dict()}, at + ".new")
        os.rename(at + ".new", at)
        with open("/state/step.new", "w") as f: f.write(str(step + 1))
        os.rename("/state/step.new", "/state/step")
    fault = os.environ.get("FAULT")
    if fault and rank == 1 and step == 8 and not os.path.exists("/state/failed"):
        open("/state/failed", "w").close()
        if fault == "exit":
            # Fail at the start of a second, so that the peers fail within the same second: the times of kubelets
            # have a resolution of one second.
            time.sleep(1 - time.time() % 1)
            print("rank reports its failure", file=sys.stderr, flush=True)
            os._exit(1)
        hog = [b"x" * (1 << 24) for _ in range(100)]
        print(f"the limit is not enforced: {len(hog)} times 16 MiB", flush=True)
    time.sleep(0.2)
print(f"rank {rank} ends at step {steps}, loss {loss.item():.6f}", flush=True)
dist.barrier()
`

const checkpointRanks, checkpointSteps = 4, 40

// checkpointedGang is a gang that runs checkpointProgram.
type checkpointedGang struct {
	*testCluster
	t            *testing.T
	ns, stateDir string
}

// startCheckpointedGang starts the gang. Its checkpoints are in a directory of the node, which is
// this machine.
func (s *testCluster) startCheckpointedGang(
	t *testing.T, fault string, change ...func(*corev1.PodSpec),
) *checkpointedGang {
	t.Helper()
	r := &checkpointedGang{testCluster: s, t: t, ns: s.createNamespace(t), stateDir: t.TempDir()}
	s.createProgram(t, r.ns, "resume.py", checkpointProgram)
	spec := s.newPodSpec("python3", "resume.py")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	mountDirectory(t, &spec, "state", r.stateDir)
	spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "STEPS", Value: strconv.Itoa(checkpointSteps)},
		{Name: "FAULT", Value: fault},
		{Name: "OMP_NUM_THREADS", Value: "1"},
	}
	for _, f := range change {
		f(&spec)
	}
	s.createJob(t, r.ns, "train", checkpointRanks, nil, spec)
	return r
}

// waitForStep waits until a step is done.
func (r *checkpointedGang) waitForStep(step int) {
	r.t.Helper()
	wait.For(r.t, fmt.Sprintf("step %d", step), func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(r.stateDir, "step"))
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(text)); err != nil || n < step {
			return fmt.Errorf("step %q", text)
		}
		return nil
	})
}

func (r *checkpointedGang) getJobAndStatus() (*batchv1.Job, lifecycle.Status) {
	r.t.Helper()
	j, err := r.client.BatchV1().Jobs(r.ns).Get(r.t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return j, lifecycle.ReadStatus(gang.Workload{Job: j})
}

// waitForRestart waits until the gang runs after one restart, and logs the time since the restart
// was decided.
func (r *checkpointedGang) waitForRestart() lifecycle.Status {
	r.t.Helper()
	begin := time.Now()
	var s lifecycle.Status
	var seen []string
	var failed int32
	wait.For(r.t, "the restart", func(context.Context) error {
		var j *batchv1.Job
		j, s = r.getJobAndStatus()
		failed = j.Status.Failed
		now := fmt.Sprintf("%s with %d restarts", s.Phase, s.Restarts+s.Disruptions)
		if len(seen) == 0 || !strings.HasSuffix(seen[len(seen)-1], now) {
			seen = append(seen, fmt.Sprintf("%.1f s: %s", time.Since(begin).Seconds(), now))
		}
		switch {
		case s.Phase == lifecycle.Failed || s.Restarts+s.Disruptions > 1:
			r.t.Fatalf("the gang is %s with %d restarts: %s", s.Phase, s.Restarts+s.Disruptions, s.Message)
		case s.Restarts+s.Disruptions != 1 || s.Phase != lifecycle.Running && s.Phase != lifecycle.Succeeded:
			return fmt.Errorf("%s, the Job counts %d failed", now, j.Status.Failed)
		}
		return nil
	})
	r.t.Logf("%s; the Job counts %d failed pods; first failure: %s", strings.Join(seen, ", "), failed, s.FirstFailure)
	return s
}

// waitForSuccess waits until the gang succeeds after one restart that continued from the checkpoint
// of step least or later.
func (r *checkpointedGang) waitForSuccess(least int) {
	r.t.Helper()
	if _, err := r.Kubectl(
		r.t.Context(), "--namespace", r.ns, "wait", "job/train", "--for=condition=GangSucceeded", "--timeout=180s",
	); err != nil {
		r.t.Fatal(err)
	}
	if _, s := r.getJobAndStatus(); s.Restarts+s.Disruptions != 1 || s.Phase != lifecycle.Succeeded {
		r.t.Errorf("the gang ended as %s with %d restarts: %s", s.Phase, s.Restarts+s.Disruptions, s.Message)
	}
	logs := r.readLogsByIndex(r.t, r.ns, "train")
	for rank := range checkpointRanks {
		text := logs[strconv.Itoa(rank)]
		_, after, _ := strings.Cut(text, fmt.Sprintf("rank %d of %d starts at step ", rank, checkpointRanks))
		word, _, _ := strings.Cut(after, "\n")
		if step, err := strconv.Atoi(word); err != nil || step < least {
			r.t.Errorf("rank %d continued at step %q, want %d or more:\n%s", rank, word, least, text)
		}
		if want := fmt.Sprintf("rank %d ends at step %d", rank, checkpointSteps); !strings.Contains(text, want) {
			r.t.Errorf("rank %d did not print %q:\n%s", rank, want, text)
		}
	}
	events, err := r.Kubectl(
		r.t.Context(), "--namespace", r.ns, "get", "events", "-o",
		`jsonpath={range .items[?(@.reason=="GangRestarting")]}{.reason} {end}`,
	)
	if err != nil {
		r.t.Fatal(err)
	}
	if n := strings.Count(events, string(gang.ReasonGangRestarting)); n != 1 {
		r.t.Errorf("%d Events report a restart", n)
	}
}

// TestRestartContainerExit makes the process of a rank fail.
func TestRestartContainerExit(t *testing.T) {
	r := requireCluster(t).startCheckpointedGang(t, "exit")
	r.waitForStep(8)
	if s := r.waitForRestart(); s.FirstFailure.Rank != 1 || s.FirstFailure.ExitCode != 1 ||
		!strings.Contains(s.FirstFailure.Message, "rank reports its failure") {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForSuccess(8)
}

// TestRestartPodDeleted deletes the pod of a rank.
func TestRestartPodDeleted(t *testing.T) {
	skipUnlessFullRun(t)
	r := requireCluster(t).startCheckpointedGang(t, "")
	r.waitForStep(8)
	if _, err := r.Kubectl(
		t.Context(), "--namespace", r.ns, "delete", "pod", "--wait=false", r.findPodName(t, r.ns, "train", "2"),
	); err != nil {
		t.Fatal(err)
	}
	if s := r.waitForRestart(); s.FirstFailure.Rank != 2 || s.FirstFailure.Reason != failure.ReasonPodDeleted {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForSuccess(8)
}

// TestRestartOOMKilled makes a rank exceed its memory limit.
func TestRestartOOMKilled(t *testing.T) {
	skipUnlessFullRun(t)
	r := requireCluster(t).startCheckpointedGang(t, "memory", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("900Mi")}
		s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
	})
	r.waitForStep(9)
	time.Sleep(5 * time.Second)
	if _, s := r.getJobAndStatus(); s.Restarts+s.Disruptions == 0 {
		for _, text := range r.readLogsByIndex(t, r.ns, "train") {
			if strings.Contains(text, "the limit is not enforced") {
				t.Skip("this node does not enforce memory limits: a rank took 1,600 MiB of 900")
			}
		}
	}
	// The kubelet may report a peer that failed afterward before the rank itself.
	if s := r.waitForRestart(); s.FirstFailure.Rank != 1 || s.FirstFailure.Reason != "OOMKilled" ||
		s.FirstFailure.ExitCode != 137 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForSuccess(8)
}

// TestRestartPodsEvicted drains all ranks from their node as kubectl drain does, and makes the node
// schedulable again.
func TestRestartPodsEvicted(t *testing.T) {
	skipUnlessFullRun(t)
	r := requireCluster(t).startCheckpointedGang(t, "")
	r.waitForStep(8)
	var names []string
	for rank := range checkpointRanks {
		names = append(names, r.findPodName(t, r.ns, "train", strconv.Itoa(rank)))
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, r.client.PolicyV1().Evictions(r.ns).Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.ns}}))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if s := r.waitForRestart(); s.FirstFailure.Reason != "EvictionByEvictionAPI" {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForSuccess(8)
}

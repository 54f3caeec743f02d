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
)

// resume trains a model with all ranks and writes a checkpoint after each step, from which it goes on when it is
// started anew. FAULT lets rank 1 fall once, in the middle.
const resume = `
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
print(f"rank {rank} of {world} begins at step {start}", flush=True)
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
    if fault and rank == 1 and step == 8 and not os.path.exists("/state/fell"):
        open("/state/fell", "w").close()
        if fault == "exit":
            # At the beginning of a second, so that its peers fall within the same one: the times that kubelets give
            # do not tell them apart.
            time.sleep(1 - time.time() % 1)
            print("a rank says why it falls", file=sys.stderr, flush=True)
            os._exit(1)
        hog = [b"x" * (1 << 24) for _ in range(100)]
        print(f"the limit is not enforced: {len(hog)} times 16 MiB", flush=True)
    time.sleep(0.2)
print(f"rank {rank} ends at step {steps}, loss {loss.item():.6f}", flush=True)
dist.barrier()
`

const resumeRanks, resumeSteps = 4, 40

// resumer is a gang that trains with resume.
type resumer struct {
	*site
	t         *testing.T
	ns, state string
}

// resumes starts the gang. Its checkpoints are in a folder of the node, which is this machine.
func (s *site) resumes(t *testing.T, fault string, change ...func(*corev1.PodSpec)) *resumer {
	t.Helper()
	r := &resumer{site: s, t: t, ns: s.namespace(t), state: t.TempDir()}
	if err := os.Chmod(r.state, 0o777); err != nil { //nolint:gosec // the ranks run as another user
		t.Fatal(err)
	}
	s.program(t, r.ns, "resume.py", resume)
	spec := s.podSpec("python3", "resume.py")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "state", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: r.state}}})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "state", MountPath: "/state"})
	c.Env = []corev1.EnvVar{{Name: "STEPS", Value: strconv.Itoa(resumeSteps)}, {Name: "FAULT", Value: fault}, {Name: "OMP_NUM_THREADS", Value: "1"}}
	for _, f := range change {
		f(&spec)
	}
	s.job(t, r.ns, "train", resumeRanks, nil, spec)
	return r
}

// reaches waits until a step is done.
func (r *resumer) reaches(step int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("step %d", step), func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(r.state, "step"))
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(string(text)); err != nil || n < step {
			return fmt.Errorf("step %q", text)
		}
		return nil
	})
}

func (r *resumer) job() (*batchv1.Job, gang.Status) {
	r.t.Helper()
	j, err := r.client.BatchV1().Jobs(r.ns).Get(r.t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return j, gang.StatusOf(gang.Workload{Job: j})
}

// restarts waits until the gang runs in its second attempt, and tells how long it took since the fall was decided on.
func (r *resumer) restarts() gang.Status {
	r.t.Helper()
	begin := time.Now()
	var s gang.Status
	var seen []string
	var failed int32
	eventually(r.t, "the second attempt", func(context.Context) error {
		var j *batchv1.Job
		j, s = r.job()
		failed = j.Status.Failed
		now := fmt.Sprintf("%s of attempt %d", s.Phase, s.Attempt)
		if len(seen) == 0 || !strings.HasSuffix(seen[len(seen)-1], now) {
			seen = append(seen, fmt.Sprintf("%.1f s: %s", time.Since(begin).Seconds(), now))
		}
		switch {
		case s.Phase == gang.Failed || s.Attempt > 1:
			r.t.Fatalf("the gang is %s in attempt %d: %s", s.Phase, s.Attempt, s.Message)
		case s.Attempt != 1 || s.Phase != gang.Running && s.Phase != gang.Succeeded:
			return fmt.Errorf("%s, the Job counts %d failed", now, j.Status.Failed)
		}
		return nil
	})
	r.t.Logf("%s; the Job counts %d failed pods; cause: %s", strings.Join(seen, ", "), failed, s.Cause)
	return s
}

// succeeds waits for the good end: of the second attempt, which went on where the first one was.
func (r *resumer) succeeds(least int) {
	r.t.Helper()
	if _, err := r.Kubectl(r.t.Context(), "--namespace", r.ns, "wait", "job/train", "--for=condition=GangSucceeded", "--timeout=180s"); err != nil {
		r.t.Fatal(err)
	}
	if _, s := r.job(); s.Attempt != 1 || s.Phase != gang.Succeeded {
		r.t.Errorf("the gang ended %s in attempt %d: %s", s.Phase, s.Attempt, s.Message)
	}
	logs := r.logs(r.t, r.ns, "train")
	for rank := range resumeRanks {
		text := logs[strconv.Itoa(rank)]
		_, after, _ := strings.Cut(text, fmt.Sprintf("rank %d of %d begins at step ", rank, resumeRanks))
		word, _, _ := strings.Cut(after, "\n")
		if step, err := strconv.Atoi(word); err != nil || step < least {
			r.t.Errorf("rank %d went on at step %q, want %d or more:\n%s", rank, word, least, text)
		}
		if want := fmt.Sprintf("rank %d ends at step %d", rank, resumeSteps); !strings.Contains(text, want) {
			r.t.Errorf("rank %d did not print %q:\n%s", rank, want, text)
		}
	}
	events, err := r.Kubectl(r.t.Context(), "--namespace", r.ns, "get", "events", "-o", `jsonpath={range .items[?(@.reason=="GangRestarting")]}{.reason} {end}`)
	if err != nil {
		r.t.Fatal(err)
	}
	if n := strings.Count(events, string(gang.ReasonGangRestarting)); n != 1 {
		r.t.Errorf("%d Events say that it restarts", n)
	}
}

// TestRestartExit: a rank's process ends with an error.
func TestRestartExit(t *testing.T) {
	r := here(t).resumes(t, "exit")
	r.reaches(8)
	if s := r.restarts(); s.Cause.Rank != 1 || s.Cause.ExitCode != 1 || !strings.Contains(s.Cause.Message, "a rank says why it falls") {
		t.Errorf("the cause is %+v", s.Cause)
	}
	if j, _ := r.job(); j.Status.Failed != 0 {
		t.Errorf("the Job counts %d failed pods", j.Status.Failed)
	}
	r.succeeds(8)
}

// TestRestartDelete: a rank's pod is deleted.
func TestRestartDelete(t *testing.T) {
	slow(t)
	r := here(t).resumes(t, "")
	r.reaches(8)
	if _, err := r.Kubectl(t.Context(), "--namespace", r.ns, "delete", "pod", "--wait=false", r.podOf(t, r.ns, "train", "2")); err != nil {
		t.Fatal(err)
	}
	if s := r.restarts(); s.Cause.Rank != 2 || s.Cause.Reason != gang.FallDeleted {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.succeeds(8)
}

// TestRestartMemory: a rank wants more memory than it may have.
func TestRestartMemory(t *testing.T) {
	slow(t)
	r := here(t).resumes(t, "memory", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("900Mi")}
		s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
	})
	r.reaches(9)
	time.Sleep(5 * time.Second)
	if _, s := r.job(); s.Attempt == 0 {
		for _, text := range r.logs(t, r.ns, "train") {
			if strings.Contains(text, "the limit is not enforced") {
				t.Skip("this node does not enforce memory limits: a rank took 1,600 MiB of 900")
			}
		}
	}
	// Though the kubelet may report a peer that lost it before the rank itself.
	if s := r.restarts(); s.Cause.Rank != 1 || s.Cause.Reason != "OOMKilled" || s.Cause.ExitCode != 137 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.succeeds(8)
}

// TestRestartEvict: all ranks are drained from their node, as kubectl drain does it, and the node takes them again.
func TestRestartEvict(t *testing.T) {
	slow(t)
	r := here(t).resumes(t, "")
	r.reaches(8)
	var names []string
	for rank := range resumeRanks {
		names = append(names, r.podOf(t, r.ns, "train", strconv.Itoa(rank)))
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, r.client.PolicyV1().Evictions(r.ns).Evict(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.ns}}))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if s := r.restarts(); s.Cause.Reason != "EvictionByEvictionAPI" {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.succeeds(8)
}

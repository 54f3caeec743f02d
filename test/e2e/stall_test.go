package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// stallingProgram writes a progress file after each step. Rank 2 waits HANG seconds for its data in the first attempt,
// and the other ranks wait for rank 2. A test that freezes a rank has a minute for that.
const stallingProgram = `
import os, time, torch, torch.distributed as dist

def load_batch(step):
    if step == 20 and dist.get_rank() == 2 and os.environ["ROLLCALL_ATTEMPT"] == "0":
        time.sleep(float(os.environ["HANG"]))

def train(step):
    load_batch(step)
    dist.all_reduce(torch.ones(100))

dist.init_process_group("gloo")
for step in range(60 if float(os.environ["HANG"]) else 600):
    train(step)
    with open("/tmp/progress", "w") as file:
        file.write(str(step))
    time.sleep(0.1)
print(f"rank {dist.get_rank()} has trained", flush=True)
`

// createStallingGang creates a gang of four ranks that run stallingProgram.
func (s *testCluster) createStallingGang(
	t *testing.T, action gang.StallAction, hang string, command ...string,
) (namespace string) {
	t.Helper()
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.py", stallingProgram)
	spec := s.newPodSpec(command...)
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "HANG", Value: hang}, {Name: "OMP_NUM_THREADS", Value: "1"}}
	s.createJob(t, ns, "train", 4, map[string]string{
		gang.AnnotationProgressFile: "/tmp/progress", gang.AnnotationStallTimeout: "10s",
		gang.AnnotationStallAction: string(action),
	}, spec)
	return ns
}

// logStatus logs what rollcall status prints.
func (s *testCluster) logStatus(t *testing.T, ns, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/rollcall", "status", name,
		"--namespace", ns, "--kubeconfig", s.Kubeconfig())
	cmd.Dir = repositoryRoot
	out, err := cmd.CombinedOutput()
	t.Logf("rollcall status:\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestStalledRankRestartsGang checks that a gang restarts as one when a rank stalls, and that the first failure names
// the rank for which the others wait, with the line of its program. Python survives its own SIGABRT only as process 1.
func TestStalledRankRestartsGang(t *testing.T) {
	s := requireCluster(t)
	for name, c := range map[string]struct {
		command  []string
		exitCode int32
	}{
		"Python is process 1":   {command: []string{"python3", "train.py"}, exitCode: 137},
		"a shell is process 1":  {command: []string{"sh", "-c", "python3 train.py; exit $?"}, exitCode: 134},
		"torchrun is process 1": {command: []string{"torchrun", "train.py"}, exitCode: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ns := s.createStallingGang(t, gang.StallRestart, "100000", c.command...)
			status := s.waitForGangStatus(t, ns, "train", lifecycle.Running, 1)
			s.logStatus(t, ns, "train")
			f := status.FirstFailure
			t.Logf("first failure: %+v", f)
			if f == nil || f.Reason != failure.ReasonStalled || f.ExitCode != c.exitCode || status.Disruptions != 0 {
				t.Fatalf("%d disruptions, first failure %s", status.Disruptions, f)
			}
			hasStack := c.exitCode != 1 // torchrun's report replaces the stacks of its processes
			isRankNamed := f.Rank == 2 && strings.Contains(f.Position, "in load_batch") && f.StalledRanks > 1
			if hasStack && !isRankNamed {
				t.Errorf("the first failure is %+v, want rank 2 in load_batch", f)
			}
			s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
		})
	}
}

// TestFrozenRankRestartsGang checks that a gang restarts if all processes of a rank are stopped. The restart ends the
// others, mostly after they were found stalled, too.
func TestFrozenRankRestartsGang(t *testing.T) {
	s := requireCluster(t)
	ns := s.createStallingGang(t, gang.StallRestart, "0", "python3", "train.py")
	s.waitForGangStatus(t, ns, "train", lifecycle.Running, 0)
	pod := s.findPodName(t, ns, "train", "2")
	wait.For(t, "the first write of the progress file", func(ctx context.Context) error {
		_, err := s.Kubectl(ctx, "--namespace", ns, "exec", pod, "--", "test", "-e", "/tmp/progress")
		return err
	})
	if err := s.FreezePod(t.Context(), ns, pod); err != nil {
		t.Fatal(err)
	}
	status := s.waitForGangStatus(t, ns, "train", lifecycle.Running, 1)
	s.logStatus(t, ns, "train")
	f := status.FirstFailure
	if f == nil || f.Reason != failure.ReasonStalled || f.StalledRanks == 1 && f.Rank != 2 {
		t.Errorf("the first failure is %+v", f)
	}
}

// TestStalledRankIsReported checks that the status and an Event report a stall, that the gang does not restart, and
// that the report ends when the ranks make progress again.
func TestStalledRankIsReported(t *testing.T) {
	s := requireCluster(t)
	ns := s.createStallingGang(t, gang.StallReport, "30", "python3", "train.py")
	waitForReason := func(want gang.Reason) {
		t.Helper()
		wait.For(t, "the reason "+string(want), func(ctx context.Context) error {
			job, err := s.client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
			if err != nil {
				return err
			}
			status := lifecycle.ReadStatus(gang.Workload{Job: job})
			if status.Reason != want || status.Restarts > 0 || status.FirstFailure != nil {
				return fmt.Errorf("status %+v", status)
			}
			return nil
		})
	}
	waitForReason(gang.ReasonStalled)
	out := s.logStatus(t, ns, "train")
	for _, want := range []string{
		"Ranks 0-3 did not write /tmp/progress for 10s", "Stalled: did not write /tmp/progress",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("rollcall status does not print %q", want)
		}
	}
	if n := s.countStallEvents(t, ns); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
}

// countStallEvents returns the number of Events that report a stall in a namespace.
func (s *testCluster) countStallEvents(t *testing.T, ns string) int {
	t.Helper()
	events, err := s.client.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: "reason=" + string(gang.ReasonStalled),
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(events.Items)
}

// printingProgram prints steps. In the first attempt, it prints nothing after step 21.
const printingProgram = `
import os, signal, sys, time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # process 1 ignores it otherwise
for step in range(40):
    print(f"step {step + 1}/40", flush=True)
    if step == 20 and os.environ["ROLLCALL_ATTEMPT"] == "0":
        time.sleep(100000)
    time.sleep(1)
`

// TestSilentRankRestartsGang checks that a gang restarts whose rank 0 prints no line any more that matches the pattern,
// and that rollcall status shows the step. The log is read once a minute.
func TestSilentRankRestartsGang(t *testing.T) {
	s := requireCluster(t)
	s.replaceRelease(t, "--set=permissions.readLogs=true")
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.py", printingProgram)
	s.createJob(t, ns, "train", 2, map[string]string{
		gang.AnnotationProgressPattern: `step (?P<step>\d+)/(?P<total>\d+)`, gang.AnnotationStallTimeout: "20s",
		gang.AnnotationStallAction: string(gang.StallRestart),
	}, s.newPodSpec("python3", "train.py"))
	s.waitForGangStatus(t, ns, "train", lifecycle.Running, 0)
	pod := s.findPodName(t, ns, "train", "0")
	wait.For(t, "the step of the hang", func(ctx context.Context) error {
		out, err := s.Kubectl(ctx, "--namespace", ns, "logs", pod)
		if err == nil && !strings.Contains(out, "step 21/40") {
			err = fmt.Errorf("the log is %s", out)
		}
		return err
	})
	if out := s.logStatus(t, ns, "train"); !strings.Contains(out, "Step 21 of 40") {
		t.Error("rollcall status does not print the step")
	}
	status := s.waitForGangStatus(t, ns, "train", lifecycle.Running, 1)
	if f := status.FirstFailure; f == nil || f.Reason != failure.ReasonStalled || f.Rank != -1 || status.Disruptions != 0 {
		t.Errorf("%d disruptions, first failure %+v", status.Disruptions, f)
	}
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
}

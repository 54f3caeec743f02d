package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// skipUnlessFaultBenchmark skips a test that only make bench-faults runs.
func skipUnlessFaultBenchmark(t *testing.T) {
	t.Helper()
	if os.Getenv("ROLLCALL_BENCH_FAULTS") != "true" {
		t.Skip("run make bench-faults to include this test")
	}
}

// TestHangs checks that the first failure names the rank that hangs, and not those that wait for it, in 20 gangs. It
// runs a few gangs at the same time.
func TestHangs(t *testing.T) {
	skipUnlessFaultBenchmark(t)
	s := requireCluster(t)
	kinds := []string{"sleep", "lock", "pipe", "loop"}
	const gangs, ranks, atOnce = 20, 4, 4
	rankOf := func(first, i int) int { return (first/atOnce + i) % ranks } // each rank hangs in each way
	for first := 0; first < gangs; first += atOnce {
		r := &peerRun{testCluster: s, start: time.Now()}
		for range atOnce {
			r.createGang(t, peers[0], peerFault{ranks: ranks})
		}
		r.waitForFirstSessions(t)
		for i, g := range r.gangs {
			rank := rankOf(first, i)
			g.writeFault(t, rank, kinds[i])
			t.Logf("gang %d: rank %d hangs: %s", first+i, rank, kinds[i])
		}
		for i, g := range r.gangs {
			status := s.waitForGangStatus(t, g.ns, "train", lifecycle.Running, 1)
			f, rank := status.FirstFailure, rankOf(first, i)
			if f.Reason != failure.ReasonStalled || int(f.Rank) != rank {
				t.Errorf("gang %d: the first failure is %s, want a stall of rank %d", first+i, f, rank)
			}
			t.Logf("gang %d: %s, position %s", first+i, f, f.Position)
			deleteTrain(t, s, g.ns)
		}
	}
}

// deleteTrain deletes the gang train, so that its pods leave room for others.
func deleteTrain(t *testing.T, s *testCluster, ns string) {
	t.Helper()
	if _, err := s.Kubectl(t.Context(), "delete", "job/train", "--namespace", ns); err != nil {
		t.Error(err)
	}
}

// TestNoFalseAlarm checks that gangs whose pauses are shorter than their timeout, or announced, do not stall during
// an hour. A long evaluation, a slow checkpoint and a program that prints rarely are such pauses.
func TestNoFalseAlarm(t *testing.T) {
	skipUnlessFaultBenchmark(t)
	s := requireCluster(t)
	s.replaceRelease(t, "--set=permissions.readLogs=true")
	program, err := os.ReadFile(filepath.Join("testdata", "peer_faults", "patient.py"))
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]string{gang.AnnotationProgressFile: "/tmp/progress"}
	pattern := map[string]string{gang.AnnotationProgressPattern: `step (?P<step>\d+)|(?P<stop>evaluates)`}
	settings := map[string]map[string]string{
		"evaluation": file, "checkpoint": file, "rare": pattern, "announced": pattern,
	}
	namespaces := map[string]string{}
	for kind, annotations := range settings {
		ns := s.createNamespace(t)
		namespaces[kind] = ns
		annotations[gang.AnnotationStallTimeout], annotations[gang.AnnotationStallAction] = "2m", string(gang.StallRestart)
		s.createProgram(t, ns, "train.py", string(program))
		s.createJob(t, ns, "train", 2, annotations, s.newPodSpec("python3", "train.py", kind))
		s.waitForGangStatus(t, ns, "train", lifecycle.Running, 0)
	}
	const duration = time.Hour
	start := time.Now()
	wait.ForAtMost(t, duration+time.Minute, "the end of the pauses", func(ctx context.Context) error {
		for kind, ns := range namespaces {
			status, err := s.readGangStatus(ctx, ns, "train")
			if err != nil {
				return err
			}
			if status.Phase != lifecycle.Running || status.Restarts > 0 || status.Reason == gang.ReasonStalled {
				t.Fatalf("%s: %s after %s: %s", kind, status.Phase, time.Since(start), status.Message)
			}
		}
		if time.Since(start) < duration {
			time.Sleep(time.Second)
			return errors.New("the time is not over")
		}
		return nil
	})
	for kind, ns := range namespaces {
		if n := s.countStallEvents(t, ns); n > 0 {
			t.Errorf("%s: %d Events report a stall", kind, n)
		}
	}
}

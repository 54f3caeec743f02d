package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// TestPyTorchElastic deletes a pod of an elastic gang and then increases the size of the gang. The
// program counts only steps with four processes, so it succeeds only after the resize.
func TestPyTorchElastic(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.applyExample(t, ns, "pytorch/elastic", s.trainingImage,
		`{op: add, path: /spec/template/spec/containers/0/env, `+
			`value: [{name: FULL, value: "4"}, {name: STEPS, value: "20"}]}`,
		// A failed pod is replaced immediately. The default is the back-off of the Job controller,
		// at least 10 s.
		`{op: add, path: /spec/podReplacementPolicy, value: TerminatingOrFailed}`)
	s.waitForLogText(t, ns, "elastic", "world_size 3 continues", 3)
	victim := s.findPodName(t, ns, "elastic", "2")
	if err := s.client.CoreV1().Pods(ns).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The remaining two ranks continue without the deleted pod, or with its replacement if that is
	// ready earlier.
	s.resizeJob(t, ns, "elastic", 4)
	wait.For(t, "the gang to end", func(ctx context.Context) error {
		j, err := s.client.BatchV1().Jobs(ns).Get(ctx, "elastic", metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch got := lifecycle.ReadPhase(gang.Workload{Job: j}); got {
		case lifecycle.Succeeded:
			return nil
		case lifecycle.Failed:
			t.Fatalf("the gang failed: %s", j.Annotations[gang.AnnotationStatus])
			return nil
		default:
			return fmt.Errorf("phase %s", got)
		}
	})
	for rank := range 4 {
		s.waitForLogText(t, ns, "elastic", fmt.Sprintf("rank %d world_size 4 done after step 20", rank), 1)
	}
}

// resizeJob changes the number of pods of an elastic gang.
func (s *testCluster) resizeJob(t *testing.T, ns, name string, pods int) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"parallelism":%d,"completions":%d}}`, pods, pods)
	_, err := s.client.BatchV1().Jobs(ns).Patch(
		t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForLogText waits until the given number of pods of a gang have printed a text.
func (s *testCluster) waitForLogText(t *testing.T, ns, name, text string, pods int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%d pods to print %q", pods, text), func(context.Context) error {
		n := 0
		for _, log := range s.readLogsByPod(t, ns, name) {
			if strings.Contains(log, text) {
				n++
			}
		}
		if n < pods {
			return fmt.Errorf("%d pods have printed it", n)
		}
		return nil
	})
}

// TestHorovodElastic adds a worker to an elastic gang. The program counts only batches with three
// processes, so it succeeds only after discover_hosts.sh has listed the new host.
func TestHorovodElastic(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.Horovod)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	const workers = "elastic-horovod-worker"
	// The ranks have the environment of the pods of the workers.
	s.applyExampleWithPatches(t, ns, "horovod/elastic", image, workers,
		`{op: add, path: /spec/template/spec/containers/0/env, `+
			`value: [{name: FULL, value: "3"}, {name: BATCHES, value: "15"}]}`)
	s.waitForLogText(t, ns, "elastic-horovod", "size 2 continues from batch 0", 1)
	s.resizeJob(t, ns, workers, 3)
	s.waitForTerminalPhase(t, ns, "elastic-horovod-launcher", lifecycle.Succeeded)
	text := s.readLauncherLog(t, ns, "elastic-horovod")
	for rank := range 3 {
		if want := fmt.Sprintf("rank %d size 3 done after batch 15", rank); !strings.Contains(text, want) {
			t.Errorf("the launcher did not print %q:\n%s", want, text)
		}
	}
}

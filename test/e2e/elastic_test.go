package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// TestPyTorchElastic takes a pod away from an elastic gang and then gives it more.
// Its steps count only with four processes, so it ends when it has grown.
func TestPyTorchElastic(t *testing.T) {
	slow(t)
	s := here(t)
	ns := s.namespace(t)
	s.apply(t, ns, "pytorch/elastic", s.training,
		`{op: add, path: /spec/template/spec/containers/0/env, value: [{name: FULL, value: "4"}, {name: STEPS, value: "20"}]}`,
		// A failed pod is replaced at once rather than after the Job controller's back-off of 10 s and more.
		`{op: add, path: /spec/podReplacementPolicy, value: TerminatingOrFailed}`)
	s.says(t, ns, "elastic", "world_size 3 goes on", 3)
	victim := s.podOf(t, ns, "elastic", "2")
	if err := s.client.CoreV1().Pods(ns).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The two that are left go on without it, or with its successor, whichever is there first.
	patch := []byte(`{"spec":{"parallelism":4,"completions":4}}`)
	if _, err := s.client.BatchV1().Jobs(ns).Patch(t.Context(), "elastic", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the gang", func(ctx context.Context) error {
		j, err := s.client.BatchV1().Jobs(ns).Get(ctx, "elastic", metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch got := gang.PhaseOf(gang.Workload{Job: j}); got {
		case gang.Succeeded:
			return nil
		case gang.Failed:
			t.Fatalf("the gang failed: %s", j.Annotations[gang.AnnotationStatus])
			return nil
		default:
			return fmt.Errorf("phase %s", got)
		}
	})
	for rank := range 4 {
		s.says(t, ns, "elastic", fmt.Sprintf("rank %d world_size 4 done after step 20", rank), 1)
	}
}

// says waits until so many pods of a gang printed a text.
func (s *site) says(t *testing.T, ns, name, text string, pods int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods that say %q", pods, text), func(context.Context) error {
		n := 0
		for _, log := range s.podLogs(t, ns, name) {
			if strings.Contains(log, text) {
				n++
			}
		}
		if n < pods {
			return fmt.Errorf("%d pods do", n)
		}
		return nil
	})
}

// TestHorovodElastic gives an elastic gang a worker more. Its batches count only with
// three processes, so it ends when discover_hosts.sh has shown the new host.
func TestHorovodElastic(t *testing.T) {
	slow(t)
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.Horovod)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	const workers = "elastic-horovod-worker"
	// The ranks have the variables of the workers' pods.
	s.applyTo(t, ns, "horovod/elastic", image, workers,
		`{op: add, path: /spec/template/spec/containers/0/env, value: [{name: FULL, value: "3"}, {name: BATCHES, value: "15"}]}`)
	s.says(t, ns, "elastic-horovod", "size 2 goes on from batch 0", 1)
	patch := []byte(`{"spec":{"parallelism":3,"completions":3}}`)
	if _, err := s.client.BatchV1().Jobs(ns).Patch(t.Context(), workers, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.phase(t, ns, "elastic-horovod-launcher", gang.Succeeded)
	text := s.launcherLog(t, ns, "elastic-horovod")
	for rank := range 3 {
		if want := fmt.Sprintf("rank %d size 3 done after batch 15", rank); !strings.Contains(text, want) {
			t.Errorf("the launcher did not print %q:\n%s", want, text)
		}
	}
}

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// TestGeneric runs three roles of a program that uses no framework, and kills a rank while they
// exchange messages. The program checks the variables and the hostfile before it connects to others.
func TestGeneric(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.applyExample(t, ns, "generic", s.trainingImage, restrictedPatches...)
	s.waitForGangStatus(t, ns, "pi-coordinator", lifecycle.Running, 0)
	s.killPod(t, ns, "pi", "sampler", 1)
	status := s.waitForGangStatus(t, ns, "pi-coordinator", lifecycle.Succeeded, 1)
	t.Logf("first failure: %s", status.FirstFailure)
	s.waitForGangStatus(t, ns, "pi-sampler", lifecycle.Succeeded, 1)
	s.waitForGangStatus(t, ns, "pi-counter", lifecycle.Succeeded, 1)

	logs := s.readLogsByRole(t, ns, "pi")
	for pod, want := range map[string]string{
		"coordinator-0": "coordinator 0 is rank 0 of 5",
		"counter-0":     "counter 0 is rank 1 of 5",
		"counter-1":     "counter 1 is rank 2 of 5",
		"sampler-0":     "sampler 0 is rank 3 of 5",
		"sampler-1":     "sampler 1 is rank 4 of 5",
	} {
		if !strings.Contains(logs[pod], want) {
			t.Errorf("%s did not print %q:\n%s", pod, want, logs[pod])
		}
	}
	if want := "attempt 1: 60000 points, pi is about 3.1"; !strings.Contains(logs["coordinator-0"], want) {
		t.Errorf("the coordinator did not print %q:\n%s", want, logs["coordinator-0"])
	}
}

// waitForGangStatus waits until a Job of a gang has a phase after a number of restarts, and returns the
// status. It fails the test if the gang finishes otherwise.
func (s *testCluster) waitForGangStatus(
	t *testing.T, ns, name string, phase lifecycle.Phase, restarts int32,
) lifecycle.Status {
	t.Helper()
	var status lifecycle.Status
	wait.For(t, fmt.Sprintf("%s to be %s after %d restarts", name, phase, restarts), func(ctx context.Context) error {
		var err error
		if status, err = s.readGangStatus(ctx, ns, name); err != nil {
			return err
		}
		done := status.Restarts + status.Disruptions
		if status.Phase == phase && done == restarts {
			return nil
		}
		if status.Phase.Terminal() || done > restarts {
			t.Fatalf("%s is %s after %d restarts: %s", name, status.Phase, done, status.Message)
		}
		return fmt.Errorf("%s after %d restarts: %s", status.Phase, done, status.Message)
	})
	return status
}

// readGangStatus returns the status of the gang of a Job.
func (s *testCluster) readGangStatus(ctx context.Context, ns, job string) (lifecycle.Status, error) {
	w, err := s.readWorkload(ctx, ns, job, false)
	if err != nil {
		return lifecycle.Status{}, err
	}
	return lifecycle.ReadStatus(w), nil
}

// killPod kills the pod of a role with an index, without time to terminate.
func (s *testCluster) killPod(t *testing.T, ns, name, role string, index int32) {
	t.Helper()
	for _, p := range s.listPods(t, ns, name) {
		if p.Labels[gang.LabelRole] != role || gang.PodIndex(&p) != index || p.Status.Phase != corev1.PodRunning {
			continue
		}
		immediately := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		err := s.client.CoreV1().Pods(ns).Delete(t.Context(), p.Name, immediately)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("the gang %s has no running %s with index %d", name, role, index)
}

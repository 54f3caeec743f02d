package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// testFirstFailureReportedLate checks that a rank that ran out of memory is the first failure, even
// if its peers are reported as failed before it. It covers a gang that restarts and a gang that
// fails.
func testFirstFailureReportedLate(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3, gang.AnnotationMaxRestarts, "1"))
	for attempt, phase := range []lifecycle.Phase{lifecycle.Restarting, lifecycle.Failed} {
		root, peer := r.getActivePod("worker-0"), r.getActivePod("worker-1")
		// The finalizer keeps the pod until its failure is reported, as a slow node does.
		r.addFinalizer(root)
		at := metav1.Now()
		r.failContainer(peer, 1)
		wait.For(t, string(phase), func(ctx context.Context) error {
			all, err := r.getWorkloads(ctx)
			if err == nil && lifecycle.ReadPhase(all[0]) != phase {
				err = fmt.Errorf("%s", lifecycle.ReadPhase(all[0]))
			}
			return err
		})
		now, err := m.Client.CoreV1().Pods(ns).Get(t.Context(), root.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p := copyWithFailedContainer(*now, 137)
		end := p.Status.ContainerStatuses[0].State.Terminated
		end.Reason, end.FinishedAt = "OOMKilled", at
		r.patchPodStatus(p)
		wait.For(t, "the first failure to be the root", func(ctx context.Context) error {
			all, err := r.getWorkloads(ctx)
			if err != nil {
				return err
			}
			if c := lifecycle.ReadStatus(all[0]).FirstFailure; c == nil || c.Rank != 0 || c.Reason != "OOMKilled" ||
				c.Pod != root.Name {
				return fmt.Errorf("restart %d: the first failure is %+v", attempt, c)
			}
			return nil
		})
		r.removeFinalizers(root)
		if phase == lifecycle.Restarting {
			r.waitForPhase(lifecycle.Running, 1)
		}
	}
	r.waitForPhase(lifecycle.Failed, 1)
	r.checkPhaseStable(time.Second)
}

// testFinalizer is a finalizer that keeps the object of a pod.
const testFinalizer = "test.rollcall.training/keep-pod"

func (r *testGang) addFinalizer(p corev1.Pod) {
	r.patchFinalizers(p, `["`+testFinalizer+`","batch.kubernetes.io/job-tracking"]`)
}

func (r *testGang) removeFinalizers(p corev1.Pod) { r.patchFinalizers(p, `null`) }

func (r *testGang) patchFinalizers(p corev1.Pod, list string) {
	r.t.Helper()
	r.patchPod(p, fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, list))
}

// testRestartSidecarExit checks that the exit of a sidecar is not a failure of the rank.
func testRestartSidecarExit(t *testing.T, m *manager, ns string) {
	w := newTrainingWorkload(2)
	spec := &w.Template().Spec
	spec.Containers = append(spec.Containers, corev1.Container{Name: "logs", Image: spec.Containers[0].Image})
	r := m.startGang(t, ns, w)
	p := r.getActivePod("worker-1")
	p.Status.ContainerStatuses[1].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()},
	}
	r.patchPodStatus(p)
	r.checkPhaseStable(3 * time.Second)
	r.failContainer(r.getActivePod("worker-1"), 4)
	if s := r.waitForPhase(lifecycle.Running, 1); s.FirstFailure == nil || s.FirstFailure.Container != "trainer" ||
		s.FirstFailure.ExitCode != 4 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
}

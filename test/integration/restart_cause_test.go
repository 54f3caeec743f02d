package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
)

// testRestartLateRoot: a rank that ran out of memory, and is reported after the peers that lost it, is the cause: in a gang
// that restarts, and in one that has failed.
func testRestartLateRoot(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3, gang.AnnotationMaxRestarts, "1"))
	for attempt, phase := range []gang.Phase{gang.Restarting, gang.Failed} {
		root, peer := r.pod("worker-0"), r.pod("worker-1")
		// Nothing goes before it was reported, as on a node that takes its time.
		r.keeps(root)
		at := metav1.Now()
		r.falls(peer, 1)
		eventually(t, string(phase), func(ctx context.Context) error {
			all, err := r.workloads(ctx)
			if err == nil && gang.PhaseOf(all[0]) != phase {
				err = fmt.Errorf("%s", gang.PhaseOf(all[0]))
			}
			return err
		})
		now, err := m.Client.CoreV1().Pods(ns).Get(t.Context(), root.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p := fallen(*now, 137)
		last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
		last.Reason, last.FinishedAt = "OOMKilled", at
		r.report(p)
		eventually(t, "the root as the cause", func(ctx context.Context) error {
			all, err := r.workloads(ctx)
			if err != nil {
				return err
			}
			if c := gang.StatusOf(all[0]).Cause; c == nil || c.Rank != 0 || c.Reason != "OOMKilled" || c.Pod != root.Name {
				return fmt.Errorf("attempt %d: the cause is %+v", attempt, c)
			}
			return nil
		})
		r.lets(root)
		if phase == gang.Restarting {
			r.reaches(gang.Running, 1)
		}
	}
	r.reaches(gang.Failed, 1)
	r.stays(time.Second)
}

// holder is a finalizer that keeps a pod's object.
const holder = "test.rollcall.training/holder"

func (r *trainee) keeps(p corev1.Pod) {
	r.finalizers(p, `["`+holder+`","batch.kubernetes.io/job-tracking"]`)
}

func (r *trainee) lets(p corev1.Pod) { r.finalizers(p, `null`) }

func (r *trainee) finalizers(p corev1.Pod, list string) {
	r.t.Helper()
	r.patchPod(p, fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, list))
}

// testRestartHelper: what ends beside the training is no fall of the rank.
func testRestartHelper(t *testing.T, m *manager, ns string) {
	w := training(2)
	spec := &w.Template().Spec
	spec.Containers = append(spec.Containers, corev1.Container{Name: "logs", Image: spec.Containers[0].Image})
	r := m.trains(t, ns, w)
	p := r.pod("worker-1")
	p.Status.ContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()}}
	r.report(p)
	r.stays(3 * time.Second)
	r.falls(r.pod("worker-1"), 4)
	if s := r.reaches(gang.Running, 1); s.Cause == nil || s.Cause.Container != "trainer" || s.Cause.ExitCode != 4 {
		t.Errorf("the cause is %+v", s.Cause)
	}
}

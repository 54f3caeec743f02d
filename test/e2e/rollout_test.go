package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

func newLabeledJob() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
				{Name: "trainer", Image: "example.com/train:1"},
			}}}},
	}
}

// TestRollout replaces all pods of Rollcall twice while Jobs are created. Every call must succeed,
// and every Job must be injected.
func TestRollout(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	stop := s.callContinuously(t, ns)
	for range 2 {
		for _, args := range [][]string{
			{"rollout", "restart", "deployment"},
			{"rollout", "status", "deployment", "--timeout=3m"},
		} {
			if _, err := s.Kubectl(t.Context(), append([]string{
				"--namespace", installation.Namespace,
			}, args...)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait.For(t, "the deletion of the old pods", func(ctx context.Context) error {
		pods, err := s.client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) != 4 {
			err = fmt.Errorf("%d pods", len(pods.Items))
		}
		return err
	})
	stop()
}

// callContinuously creates labeled Jobs as dry runs, 20 per second, until the returned function is called.
// That function fails the test if there was no call, or if a Job was rejected or not injected.
func (s *testCluster) callContinuously(t *testing.T, ns string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	calls, failures := 0, 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			job, err := s.client.BatchV1().Jobs(ns).Create(context.WithoutCancel(ctx), newLabeledJob(), metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll},
			})
			calls++
			if err != nil || job.Annotations[gang.AnnotationInjected] == "" {
				failures++
				t.Errorf("call %d: %v", calls, err)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() {
		t.Helper()
		cancel()
		<-ended
		t.Logf("%d calls, %d failed", calls, failures)
		if calls == 0 {
			t.Error("no call was made, so nothing was tested")
		}
	}
}

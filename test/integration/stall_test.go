package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// testStallReported checks that a gang whose ranks stall reports that once and does not restart, and that the report
// ends with the stall. The test acts as the kubelet that runs the readiness probe.
func testStallReported(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3,
		gang.AnnotationProgressFile, "/progress", gang.AnnotationStallTimeout, "20s"))
	setReady := func(ready bool, names ...string) {
		t.Helper()
		for name, p := range r.listActivePods() {
			if !slices.Contains(names, name) {
				continue
			}
			status := corev1.ConditionTrue
			if !ready {
				status = corev1.ConditionFalse
			}
			since := metav1.NewTime(time.Now().Add(time.Second)) // later than the start of the container
			p.Status.ContainerStatuses[0].Ready, p.Status.Conditions = ready, nil
			for _, condition := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
					Type: condition, Status: status, Reason: "Test", LastTransitionTime: since,
				})
			}
			r.patchPodStatus(p) // the scheduler and the Job controller write to the pod too
		}
	}
	waitForStatus := func(reason gang.Reason, message string) {
		t.Helper()
		wait.For(t, "the reason "+string(reason), func(ctx context.Context) error {
			all, err := r.getWorkloads(ctx)
			if err != nil {
				return err
			}
			s := lifecycle.ReadStatus(all[0])
			if s.Reason != reason || s.Message != message || s.Phase != lifecycle.Running || s.Attempt != 0 {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		})
	}
	setReady(false, "worker-1")
	waitForStatus(gang.ReasonStalled, "Rank 1 did not write /progress for 20s")
	m.waitForEvents(t, ns, gang.ReasonStalled, 1)
	setReady(false, "worker-0", "worker-2") // does not change the report
	setReady(true, "worker-0", "worker-1", "worker-2")
	waitForStatus(gang.ReasonGangRunning, "All 3 ranks have been ready")
}

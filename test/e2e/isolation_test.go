package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestIsolation checks that admission does not depend on the controller: no call fails while the
// controller loses its Lease, exits at its start again and again, or is scaled to 0.
func TestIsolation(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	installed, err := s.client.AppsV1().Deployments(installation.Namespace).
		Get(t.Context(), installation.ControllerName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		args, err := json.Marshal(installed.Spec.Template.Spec.Containers[0].Args)
		if err != nil {
			t.Fatal(err)
		}
		s.patchController(t, fmt.Sprintf(`{"spec":{"replicas":%d,"strategy":{"rollingUpdate":{"maxUnavailable":0}},`+
			`"template":{"spec":{"containers":[{"name":"controller","args":%s}]}}}}`, *installed.Spec.Replicas, args))
		if _, err := s.Kubectl(context.Background(), "--namespace", installation.Namespace, "rollout", "status",
			"deployment/"+installation.ControllerName, "--timeout=3m"); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name string
		fail func(*testing.T)
	}{
		{"LeaseLost", s.stealLease},
		{"CrashLoop", s.crashController},
		{"ScaledToZero", s.scaleControllerToZero},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := s.callContinuously(t, ns)
			c.fail(t)
			time.Sleep(5 * time.Second)
			stop()
		})
	}
}

// stealLease gives the Lease to another holder, and waits until a container of the controller exits.
func (s *testCluster) stealLease(t *testing.T) {
	before, err := s.countControllerRestarts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":"thief","renewTime":%q}}`,
		time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := s.client.CoordinationV1().Leases(installation.Namespace).Patch(t.Context(), installation.Release,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the exit of the leader", func(ctx context.Context) error {
		after, err := s.countControllerRestarts(ctx)
		if err == nil && after <= before {
			err = errors.New("no container has exited")
		}
		return err
	})
}

// crashController makes the controller exit at its start again and again, like one that exceeds its memory
// while it fills its cache.
func (s *testCluster) crashController(t *testing.T) {
	s.patchController(t, `{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":2}},"template":{"spec":`+
		`{"containers":[{"name":"controller","args":["controller","--no-such-flag"]}]}}}}`)
	wait.For(t, "crashes of the controller", func(ctx context.Context) error {
		n, err := s.countControllerRestarts(ctx)
		if err == nil && n < 3 {
			err = fmt.Errorf("%d restarts", n)
		}
		return err
	})
}

func (s *testCluster) scaleControllerToZero(t *testing.T) {
	s.patchController(t, `{"spec":{"replicas":0}}`)
	wait.For(t, "no controller", func(ctx context.Context) error {
		pods, err := s.listManagerPods(ctx, "controller")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods", len(pods))
		}
		return err
	})
}

func (s *testCluster) patchController(t *testing.T, patch string) {
	t.Helper()
	_, err := s.client.AppsV1().Deployments(installation.Namespace).Patch(context.Background(),
		installation.ControllerName, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// listManagerPods returns the pods of a component: webhook or controller.
func (s *testCluster) listManagerPods(ctx context.Context, component string) ([]corev1.Pod, error) {
	pods, err := s.client.CoreV1().Pods(installation.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// countControllerRestarts returns the number of restarts of the containers of the controller.
func (s *testCluster) countControllerRestarts(ctx context.Context) (restarts int32, err error) {
	pods, err := s.listManagerPods(ctx, "controller")
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
	}
	return restarts, err
}

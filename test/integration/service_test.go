package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// waitForService waits for a Service and returns it.
func (m *manager) waitForService(t *testing.T, ns, name string) *corev1.Service {
	t.Helper()
	var s *corev1.Service
	wait.For(t, "the Service "+name, func(ctx context.Context) (err error) {
		s, err = m.Client.CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return s
}

// waitForServiceOwners waits until a Service has the given number of owners.
func (m *manager) waitForServiceOwners(t *testing.T, ns, name string, owners int) *corev1.Service {
	t.Helper()
	var s *corev1.Service
	wait.For(t, fmt.Sprintf("%d owners", owners), func(context.Context) error {
		if s = m.waitForService(t, ns, name); len(s.OwnerReferences) != owners {
			return fmt.Errorf("%d owners", len(s.OwnerReferences))
		}
		return nil
	})
	return s
}

func testServiceRestored(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	before := m.waitForService(t, ns, "train").UID
	if err := m.Client.CoreV1().Services(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a new Service", func(ctx context.Context) error {
		s, err := m.Client.CoreV1().Services(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && s.UID == before {
			err = errors.New("it is still the old Service")
		}
		return err
	})
}

func newUserService(clusterIP string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// testServiceConflict checks that a user's Service that is not suitable is reported and not
// changed.
func testServiceConflict(t *testing.T, m *manager, ns string) {
	theirs, err := m.Client.CoreV1().Services(ns).Create(
		t.Context(), newUserService("", map[string]string{"app": "web"}), metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, newJob("train", 2))
	m.waitForEvent(t, ns, gang.ReasonServiceConflict)
	now := m.waitForService(t, ns, "train")
	if diff := cmp.Diff(theirs.Spec, now.Spec); diff != "" || len(now.OwnerReferences) > 0 {
		t.Errorf("the user's Service was changed:\n%s", diff)
	}
}

// testUserService checks that a suitable Service of the user is used and not taken over.
func testUserService(t *testing.T, m *manager, ns string) {
	theirs := newUserService(corev1.ClusterIPNone, map[string]string{gang.LabelGang: "train"})
	if _, err := m.Client.CoreV1().Services(ns).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, newJob("train", 1))
	m.setPodPhases(t, m.waitForPods(t, ns, "train", 1), corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	if s := m.waitForService(t, ns, "train"); len(s.OwnerReferences) > 0 {
		t.Errorf("the user's Service was taken over: %+v", s.OwnerReferences)
	}
}

// testServiceShared checks that workloads with the same gang name, for example the Jobs of a
// CronJob, own its Service together.
func testServiceShared(t *testing.T, m *manager, ns string) {
	for _, name := range []string{"first", "second"} {
		j := newJob(name, 1)
		j.Labels[gang.LabelGang] = "team"
		m.createJob(t, ns, j)
	}
	before := m.waitForServiceOwners(t, ns, "team", 2)
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), "first", metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "one owner", func(context.Context) error {
		now := m.waitForService(t, ns, "team")
		if now.UID != before.UID {
			t.Fatal("the Service was deleted with its first owner")
		}
		if len(now.OwnerReferences) != 1 {
			return fmt.Errorf("%d owners", len(now.OwnerReferences))
		}
		return nil
	})
}

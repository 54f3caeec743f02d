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
	"rollcall.training/test/installation"
)

// service waits for a Service.
func (m *manager) service(t *testing.T, ns, name string) *corev1.Service {
	t.Helper()
	var s *corev1.Service
	eventually(t, "the Service "+name, func(ctx context.Context) (err error) {
		s, err = m.Client.CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return s
}

// owned waits until a Service has so many owners.
func (m *manager) owned(t *testing.T, ns, name string, owners int) *corev1.Service {
	t.Helper()
	var s *corev1.Service
	eventually(t, fmt.Sprintf("%d owners", owners), func(context.Context) error {
		if s = m.service(t, ns, name); len(s.OwnerReferences) != owners {
			return fmt.Errorf("%d owners", len(s.OwnerReferences))
		}
		return nil
	})
	return s
}

func testServiceRestored(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, job("train", 2))
	before := m.service(t, ns, "train").UID
	if err := m.Client.CoreV1().Services(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new Service", func(ctx context.Context) error {
		s, err := m.Client.CoreV1().Services(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && s.UID == before {
			err = errors.New("still the old one")
		}
		return err
	})
}

func userService(clusterIP string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// testServiceConflict: a Service of the user's that cannot serve is named, not taken.
func testServiceConflict(t *testing.T, m *manager, ns string) {
	theirs, err := m.Client.CoreV1().Services(ns).Create(t.Context(), userService("", map[string]string{"app": "web"}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, job("train", 2))
	m.event(t, ns, gang.ReasonServiceConflict)
	now := m.service(t, ns, "train")
	if diff := cmp.Diff(theirs.Spec, now.Spec); diff != "" || len(now.OwnerReferences) > 0 {
		t.Errorf("the user's Service was changed:\n%s", diff)
	}
}

// testServiceOfTheUser: one that can serve is used.
func testServiceOfTheUser(t *testing.T, m *manager, ns string) {
	theirs := userService(corev1.ClusterIPNone, map[string]string{gang.LabelGang: "train"})
	if _, err := m.Client.CoreV1().Services(ns).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, job("train", 1))
	m.setPods(t, m.pods(t, ns, "train", 1), corev1.PodRunning)
	m.jobPhase(t, ns, gang.Running, "GangRunning")
	if s := m.service(t, ns, "train"); len(s.OwnerReferences) > 0 {
		t.Errorf("the user's Service was taken over: %+v", s.OwnerReferences)
	}
}

// testServiceShared: workloads that bear the name of one gang, such as the runs of
// a CronJob, own its Service together.
func testServiceShared(t *testing.T, m *manager, ns string) {
	for _, name := range []string{"first", "second"} {
		j := job(name, 1)
		j.Labels[gang.LabelGang] = "team"
		m.createJob(t, ns, j)
	}
	before := m.owned(t, ns, "team", 2)
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), "first", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	installation.Eventually(t, "one owner", func(context.Context) error {
		now := m.service(t, ns, "team")
		if now.UID != before.UID {
			t.Fatal("the Service went with the first of its owners")
		}
		if len(now.OwnerReferences) != 1 {
			return fmt.Errorf("%d owners", len(now.OwnerReferences))
		}
		return nil
	})
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

func newStatefulSet(name string, ranks int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &ranks, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}},
			},
		},
	}
}

func (m *manager) createStatefulSet(t *testing.T, ns string, s *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	out, err := m.Client.AppsV1().StatefulSets(ns).Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating the StatefulSet: %v", err)
	}
	return out
}

// testStatefulSetUpdates updates a StatefulSet with different clients.
func testStatefulSetUpdates(t *testing.T, m *manager, ns string) {
	first := m.createStatefulSet(t, ns, newStatefulSet("train", 2))
	if first.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || first.Spec.ServiceName != "train" {
		t.Fatalf("the StatefulSet cannot be a gang: %s, Service %q", first.Spec.PodManagementPolicy, first.Spec.ServiceName)
	}
	sets := m.Client.AppsV1().StatefulSets(ns)
	check := func(what, world string, same bool) {
		t.Helper()
		now, err := sets.Get(t.Context(), "train", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := envByName(now.Spec.Template.Spec.Containers[0])["WORLD_SIZE"]; got != world {
			t.Errorf("%s: WORLD_SIZE is %q, want %q", what, got, world)
		}
		if diff := cmp.Diff(first.Spec.Template, now.Spec.Template); same != (diff == "") {
			t.Errorf("%s: template unchanged is %v:\n%s", what, diff == "", diff)
		}
	}
	must := func(_ *appsv1.StatefulSet, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(
		sets.Patch(
			t.Context(), "train", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{},
		),
	)
	check("labeled", "2", true)
	must(sets.Update(t.Context(), newStatefulSet("train", 2), metav1.UpdateOptions{}))
	check("replaced", "2", true)
	must(sets.Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}))
	check("scaled to nothing", "2", true)
	must(sets.Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}))
	check("scaled back", "2", true)
	must(sets.Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}))
	check("scaled", "4", false)
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "scale", "statefulset/train", "--replicas=5"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the size of kubectl scale", func(ctx context.Context) error {
		now, err := sets.Get(ctx, "train", metav1.GetOptions{})
		if got := envByName(now.Spec.Template.Spec.Containers[0])["WORLD_SIZE"]; err == nil && got != "5" {
			err = fmt.Errorf("WORLD_SIZE is %q", got)
		}
		return err
	})
	_, err := sets.Patch(t.Context(), "train", types.StrategicMergePatchType,
		[]byte(
			`{"spec":{"template":{"spec":{"containers":[{"name":"trainer","env":[{"name":"WORLD_SIZE","value":"7"}]}]}}}}`,
		), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(fmt.Sprint(err), "WORLD_SIZE must be") {
		t.Errorf("a wrong WORLD_SIZE was not rejected: %v", err)
	}
}

// testStatefulSetLabeledAfterCreation checks that an existing StatefulSet becomes a gang only if
// its immutable fields allow it.
func testStatefulSetLabeledAfterCreation(t *testing.T, m *manager, ns string) {
	label := []byte(`{"metadata":{"labels":{"` + gang.LabelFramework + `":"pytorch"}}}`)
	ordered := newStatefulSet("ordered", 2)
	ordered.Labels = nil
	m.createStatefulSet(t, ns, ordered)
	_, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "ordered", types.MergePatchType, label, metav1.PatchOptions{},
	)
	if !apierrors.IsInvalid(err) || !strings.Contains(fmt.Sprint(err), "immutable") {
		t.Errorf("want a denial that names the immutable fields, got %v", err)
	}
	parallel := newStatefulSet("parallel", 2)
	parallel.Labels = nil
	parallel.Spec.PodManagementPolicy, parallel.Spec.ServiceName = appsv1.ParallelPodManagement, "parallel"
	m.createStatefulSet(t, ns, parallel)
	now, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "parallel", types.MergePatchType, label, metav1.PatchOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if envByName(now.Spec.Template.Spec.Containers[0])["WORLD_SIZE"] != "2" {
		t.Error("the StatefulSet was not injected")
	}
	m.waitForService(t, ns, "parallel")
}

// testStatefulSetPhases checks that a StatefulSet is Running when all ranks are ready.
func testStatefulSetPhases(t *testing.T, m *manager, ns string) {
	m.createStatefulSet(t, ns, newStatefulSet("train", 2))
	phase := func(want lifecycle.Phase) {
		t.Helper()
		wait.For(t, "phase "+string(want), func(ctx context.Context) error {
			s, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "train", metav1.GetOptions{})
			if got := lifecycle.Phase(s.Labels[gang.LabelPhase]); err == nil && got != want {
				err = fmt.Errorf("label %q", got)
			}
			return err
		})
	}
	phase(lifecycle.Pending)
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods, corev1.PodRunning)
	phase(lifecycle.Running)
	m.setPodPhases(t, pods[:1], corev1.PodPending)
	phase(lifecycle.Pending)
}

// testApplyIdempotent checks that repeatedly applying a manifest, as GitOps tools do, does not
// change the object.
func testApplyIdempotent(t *testing.T, m *manager, ns string) {
	manifest := `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train, labels: {rollcall.training/framework: pytorch}}
spec:
  replicas: 2
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec: {containers: [{name: trainer, image: "example.com/train:1", env: [{name: RUN, value: "run-$(RANK)"}]}]}
`
	for _, mode := range []string{"--server-side=false", "--server-side=true"} {
		apply := func() int64 {
			t.Helper()
			if _, err := m.Cluster.KubectlWithInput(
				t.Context(), manifest, "-n", ns, "apply", mode,
				"--force-conflicts="+strings.TrimPrefix(mode, "--server-side="), "-f", "-",
			); err != nil {
				t.Fatal(err)
			}
			s, err := m.Client.AppsV1().StatefulSets(ns).Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := envByName(s.Spec.Template.Spec.Containers[0])["RUN"]; got != "run-$(RANK)" {
				t.Errorf("RUN is %q", got)
			}
			return s.Generation
		}
		first := apply()
		for range 3 {
			if again := apply(); again != first {
				t.Errorf("%s: applying the same manifest again changed the object: generation %d, then %d", mode, first, again)
			}
		}
		if err := m.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train", metav1.DeleteOptions{
			PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
		}); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the deletion of the StatefulSet", func(ctx context.Context) error {
			_, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "train", metav1.GetOptions{})
			if err == nil {
				return errors.New("it still exists")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

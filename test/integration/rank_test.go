package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// older makes an API server behave as the oldest that this one can emulate: one of those before Kubernetes 1.36, which do
// not have MutatingAdmissionPolicy, with expressions compiled as they compile them.
var older = cluster.Options{Nodes: cluster.None, APIServerFlags: []string{"--emulated-version=kube=1.34"}}

// TestRanks lets real controllers make the pods of workloads whose ranks do not begin at 0, on a cluster that has
// MutatingAdmissionPolicy and on one that has not. The chart is installed as it is, and has to choose by itself.
func TestRanks(t *testing.T) {
	modes := map[string]cluster.Options{"policy": {Nodes: cluster.None}, "webhook": older}
	if cluster.DefaultRelease() == cluster.Floor {
		modes = map[string]cluster.Options{"webhook": {Nodes: cluster.None}}
	}
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			m := &manager{installation.New(t, cluster.Start(t, options))}
			m.awaitRanks(t, m.namespace(t))
			m.together(t, map[string]func(*testing.T, *manager, string){
				"Job":         testRanksOfJob,
				"StatefulSet": testRanksOfStatefulSet,
				"NotIndexed":  testRankWithoutIndex,
				"Labels":      testRankLabels,
				"Untouched":   testRankUntouched,
			})
			t.Run("Metrics", func(t *testing.T) { testRankMetrics(t, m, name) })
			t.Run("Down", func(t *testing.T) { testRankDown(t, m, m.namespace(t), name) })
			t.Run("NotInForce", func(t *testing.T) { testRankNotInForce(t, m, m.namespace(t), name) })
		})
	}
}

// awaitRanks waits until the API server, which learns of each policy by a watch of its own,
// gives ranks and refuses pods that can have none.
func (m *manager) awaitRanks(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "ranks to be given", func(ctx context.Context) error {
		p, err := m.tryPod(ctx, ns, map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "0"})
		if err != nil {
			return err
		}
		if p.Labels[gang.LabelRank] != "1" {
			return errors.New("nothing of ours is in force yet") // neither what gives ranks nor what refuses pods without
		}
		_, err = m.tryPod(ctx, ns, map[string]string{gang.LabelRankOffset: "x", appsv1.PodIndexLabel: "0"})
		if err == nil {
			return errors.New("a pod that can have no rank is not refused yet")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
}

// tryPod makes a pod with labels by a dry run, which goes through all admission.
func (m *manager) tryPod(ctx context.Context, ns string, labels map[string]string) (*corev1.Pod, error) {
	return m.Client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "train-", Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// workers is a Job as an injector leaves the one of a gang's workers: what stands in its pod template is all that counts.
func workers(ranks int32, labels map[string]string) *batchv1.Job {
	j := job("workers", ranks)
	j.Labels = nil
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.Template.Labels = labels
	return j
}

// ranks waits for so many pods of a namespace and returns their rank labels by their index.
func (m *manager) ranks(t *testing.T, ns, indexLabel string, count int) map[string]string {
	t.Helper()
	var got map[string]string
	eventually(t, "the pods", func(ctx context.Context) error {
		list, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got = map[string]string{}
		for _, p := range list.Items {
			got[p.Labels[indexLabel]] = p.Labels[gang.LabelRank]
		}
		if len(got) != count {
			return fmt.Errorf("%d pods of %d", len(got), count)
		}
		return nil
	})
	return got
}

func testRanksOfJob(t *testing.T, m *manager, ns string) {
	// What the template says of the rank is the same for all pods, and has no say.
	m.createJob(t, ns, workers(3, map[string]string{gang.LabelRankOffset: "1", gang.LabelRank: "0"}))
	got := m.ranks(t, ns, batchv1.JobCompletionIndexAnnotation, 3)
	if diff := cmp.Diff(map[string]string{"0": "1", "1": "2", "2": "3"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
}

func testRanksOfStatefulSet(t *testing.T, m *manager, ns string) {
	set := statefulSet("workers", 3)
	set.Labels = nil
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.Template.Labels[gang.LabelRankOffset] = "4"
	m.createStatefulSet(t, ns, set)
	got := m.ranks(t, ns, appsv1.PodIndexLabel, 3)
	if diff := cmp.Diff(map[string]string{"0": "4", "1": "5", "2": "6"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
	// A pod that takes another's place has its rank.
	list, err := m.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: gang.LabelRank + "=5"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods of rank 5, %v", len(list.Items), err)
	}
	if err := m.Client.CoreV1().Pods(ns).Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "rank 5 anew", func(ctx context.Context) error {
		now, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: gang.LabelRank + "=5"})
		if err == nil && (len(now.Items) != 1 || now.Items[0].UID == list.Items[0].UID) {
			err = errors.New("not yet")
		}
		return err
	})
}

// testRankWithoutIndex: pods that could have no rank do not come into being, and the workload's Events say why.
func testRankWithoutIndex(t *testing.T, m *manager, ns string) {
	j := workers(2, map[string]string{gang.LabelRankOffset: "1"})
	j.Spec.CompletionMode = ptr.To(batchv1.NonIndexedCompletion)
	m.createJob(t, ns, j)
	eventually(t, "an Event that says why", func(ctx context.Context) error {
		list, err := m.Client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "FailedCreate" && strings.Contains(e.Note, "set spec.completionMode: Indexed on the Job") {
				return nil
			}
		}
		return fmt.Errorf("%d Events without it", len(list.Items))
	})
	pods, err := m.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods without a rank, %v", len(pods.Items), err)
	}
}

// testRankLabels holds what the API server does to what [gang.RankOf] says of the same labels.
func testRankLabels(t *testing.T, m *manager, ns string) {
	values := []string{"", "0", "1", "03", "9.5", "x", "999999999", "1000000000"}
	for _, offset := range values {
		for _, index := range values {
			for _, kind := range [][]string{{batchv1.JobCompletionIndexAnnotation}, {appsv1.PodIndexLabel}, {}, {appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation}} {
				if len(kind) != 1 && index != "1" {
					continue // said once is enough
				}
				labels := map[string]string{gang.LabelRankOffset: offset, gang.LabelRank: "user"}
				for _, k := range kind {
					labels[k] = index
				}
				checkRankOf(t, m, ns, labels)
			}
		}
	}
}

func checkRankOf(t *testing.T, m *manager, ns string, labels map[string]string) {
	t.Helper()
	want, errs := gang.RankOf(labels)
	p, err := m.tryPod(t.Context(), ns, labels)
	switch {
	case len(errs) == 0 && err != nil:
		t.Errorf("%v: refused: %v", labels, err)
	case len(errs) == 0 && p.Labels[gang.LabelRank] != strconv.Itoa(int(want)):
		t.Errorf("%v: rank %q, want %d", labels, p.Labels[gang.LabelRank], want)
	case len(errs) > 0 && !apierrors.IsInvalid(err):
		t.Errorf("%v: %v, want a refusal for: %v", labels, err, errs.ToAggregate())
	case len(errs) > 0:
		// The first mistake is named in the same words, whoever refuses.
		text, _, _ := strings.Cut(errs[0].Error(), ";")
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: the refusal lacks %q: %v", labels, text, err)
		}
	}
}

// testRankUntouched: a pod without the label keeps what labels it has, and so do pods of the cluster's own.
func testRankUntouched(t *testing.T, m *manager, ns string) {
	for name, c := range map[string]struct {
		reason, namespace string
		labels            map[string]string
	}{
		"Plain":        {"A rank without an offset is the user's own label.", ns, map[string]string{gang.LabelRank: "user", appsv1.PodIndexLabel: "x"}},
		"No labels":    {"", ns, nil},
		"System":       {"The cluster's own workloads are left alone.", metav1.NamespaceSystem, map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "3"}},
		"OurNamespace": {"So are the release's.", installation.Namespace, map[string]string{gang.LabelRankOffset: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := m.tryPod(t.Context(), c.namespace, maps.Clone(c.labels))
			if err != nil {
				t.Fatalf("%s\nrefused: %v", c.reason, err)
			}
			if diff := cmp.Diff(c.labels, p.Labels); diff != "" {
				t.Errorf("%s\nlabels: -want, +got:\n%s", c.reason, diff)
			}
		})
	}
}

// testRankMetrics: the manager is called where it has to be, and else never.
func testRankMetrics(t *testing.T, m *manager, mode string) {
	var text strings.Builder
	if err := m.Metrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(text.String()))
	if called := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "rollcall_pod_ranks_total{") }); called != (mode == "webhook") {
		t.Errorf("called for pods: %v, with the mode %s", called, mode)
	}
	for _, want := range []string{
		`rollcall_pod_ranks_total{kind="Job",reason="Injected",result="allowed"}`,
		`rollcall_pod_ranks_total{kind="StatefulSet",reason="Invalid",result="denied"}`,
	} {
		if mode == "webhook" && !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// testRankDown: without Rollcall, what is not ours works as ever. With the webhook, pods of ours wait; with the policy,
// they do not need it.
func testRankDown(t *testing.T, m *manager, ns, mode string) {
	m.Stop(t)
	if _, err := m.tryPod(t.Context(), ns, nil); err != nil {
		t.Errorf("a plain pod is refused: %v", err)
	}
	m.createJob(t, ns, workers(2, map[string]string{gang.LabelRankOffset: "1"}))
	if mode == "webhook" {
		_, err := m.tryPod(t.Context(), ns, map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "0"})
		if err == nil || !strings.Contains(err.Error(), rankWebhook) {
			t.Errorf("want a refusal that names the webhook, got %v", err)
		}
		m.Start(t)
	}
	got := m.ranks(t, ns, batchv1.JobCompletionIndexAnnotation, 2)
	if diff := cmp.Diff(map[string]string{"0": "1", "1": "2"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
}

// testRankNotInForce takes away what gives ranks, as an upgrade does for a moment when it goes from webhook to policy. It
// comes last.
func testRankNotInForce(t *testing.T, m *manager, ns, mode string) {
	api := m.Client.AdmissionregistrationV1()
	if mode == "policy" {
		if err := api.MutatingAdmissionPolicyBindings().Delete(t.Context(), rankPolicy, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	} else {
		patch := []byte(`{"webhooks":[{"name":"` + rankWebhook + `","rules":null}]}`)
		if _, err := api.MutatingWebhookConfigurations().Patch(t.Context(), chartRelease, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "2"}
	eventually(t, "a refusal", func(ctx context.Context) error {
		switch p, err := m.tryPod(ctx, ns, labels); {
		case err == nil && p.Labels[gang.LabelRank] != "3":
			t.Fatalf("a pod was let through with the rank %q", p.Labels[gang.LabelRank])
		case err == nil:
			return errors.New("it is still given")
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `must be "3"`):
			t.Fatalf("refused with %v, want the rank in it", err)
		}
		return nil
	})
	// Whoever says the right thing is not refused: the check is of the rank, not of who gave it.
	labels[gang.LabelRank] = "3"
	if _, err := m.tryPod(t.Context(), ns, labels); err != nil {
		t.Errorf("the right rank is refused: %v", err)
	}
}

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
	"rollcall.training/test/wait"
)

// emulatedOlderRelease makes an API server behave like the oldest release that it can emulate.
// Kubernetes before 1.36 does not have MutatingAdmissionPolicy and compiles expressions
// differently.
var emulatedOlderRelease = cluster.Options{
	Nodes:          cluster.NoNodes,
	APIServerFlags: []string{"--emulated-version=kube=1.34"},
}

// TestRanks checks the ranks of pods of real controllers for workloads whose ranks start above 0.
// It runs on a cluster with MutatingAdmissionPolicy and on a cluster without. The chart must choose
// the implementation without any values.
func TestRanks(t *testing.T) {
	t.Parallel()
	modes := map[string]cluster.Options{"policy": {Nodes: cluster.NoNodes}, "webhook": emulatedOlderRelease}
	if cluster.DefaultRelease().Minor() < 36 {
		modes = map[string]cluster.Options{"webhook": {Nodes: cluster.NoNodes}}
	}
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			m := &manager{installation.New(t, startCluster(t, options))}
			m.waitForRankAdmission(t, m.createNamespace(t))
			m.runParallel(t, map[string]func(*testing.T, *manager, string){
				"Job":         testRanksOfJob,
				"StatefulSet": testRanksOfStatefulSet,
				"NotIndexed":  testRankWithoutIndex,
				"Labels":      testRankLabelValues,
				"Untouched":   testRankLabelUnchanged,
			})
			t.Run("Metrics", func(t *testing.T) { testRankMetrics(t, m, name) })
			t.Run("WithoutManager", func(t *testing.T) { testRankWithoutManager(t, m, m.createNamespace(t), name) })
			t.Run("AssignmentRemoved", func(t *testing.T) { testRankAssignmentRemoved(t, m, m.createNamespace(t), name) })
		})
	}
}

// waitForRankAdmission waits until the API server assigns ranks and rejects pods without an index.
// The API server watches each policy separately.
func (m *manager) waitForRankAdmission(t *testing.T, ns string) {
	t.Helper()
	wait.For(t, "ranks to be assigned", func(ctx context.Context) error {
		p, err := m.dryRunPod(ctx, ns, map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "0"})
		if err != nil {
			return err
		}
		if p.Labels[gang.LabelRank] != "1" {
			return errors.New("no rank was assigned and the pod was not denied")
		}
		_, err = m.dryRunPod(ctx, ns, map[string]string{gang.LabelRankOffset: "x", appsv1.PodIndexLabel: "0"})
		if err == nil {
			return errors.New("a pod without an index is not denied yet")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
}

// dryRunPod creates a pod with labels by a dry run, which passes through all of admission.
func (m *manager) dryRunPod(ctx context.Context, ns string, labels map[string]string) (*corev1.Pod, error) {
	return m.Client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "train-", Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// newWorkersJob returns a Job as an injector returns the Job of a gang's workers. Only its pod
// template matters.
func newWorkersJob(ranks int32, labels map[string]string) *batchv1.Job {
	j := newJob("workers", ranks)
	j.Labels = nil
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.Template.Labels = labels
	return j
}

// waitForRankLabels waits for the given number of pods of a namespace and returns their rank labels
// by index.
func (m *manager) waitForRankLabels(t *testing.T, ns, indexLabel string, count int) map[string]string {
	t.Helper()
	var got map[string]string
	wait.For(t, "the pods", func(ctx context.Context) error {
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
	// The rank label of the template is the same for all pods and must be ignored.
	m.createJob(t, ns, newWorkersJob(3, map[string]string{gang.LabelRankOffset: "1", gang.LabelRank: "0"}))
	got := m.waitForRankLabels(t, ns, batchv1.JobCompletionIndexAnnotation, 3)
	if diff := cmp.Diff(map[string]string{"0": "1", "1": "2", "2": "3"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
}

func testRanksOfStatefulSet(t *testing.T, m *manager, ns string) {
	set := newStatefulSet("workers", 3)
	set.Labels = nil
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	set.Spec.Template.Labels[gang.LabelRankOffset] = "4"
	m.createStatefulSet(t, ns, set)
	got := m.waitForRankLabels(t, ns, appsv1.PodIndexLabel, 3)
	if diff := cmp.Diff(map[string]string{"0": "4", "1": "5", "2": "6"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
	// A pod that replaces another pod must have the same rank.
	list, err := m.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: gang.LabelRank + "=5"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods of rank 5, %v", len(list.Items), err)
	}
	if err := m.Client.CoreV1().Pods(ns).Delete(t.Context(), list.Items[0].Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
	}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a new pod of rank 5", func(ctx context.Context) error {
		now, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: gang.LabelRank + "=5"})
		if err == nil && (len(now.Items) != 1 || now.Items[0].UID == list.Items[0].UID) {
			err = errors.New("there is none")
		}
		return err
	})
}

// testRankWithoutIndex checks that pods without an index are rejected, and that the workload's
// Events give the reason.
func testRankWithoutIndex(t *testing.T, m *manager, ns string) {
	j := newWorkersJob(2, map[string]string{gang.LabelRankOffset: "1"})
	j.Spec.CompletionMode = ptr.To(batchv1.NonIndexedCompletion)
	m.createJob(t, ns, j)
	wait.For(t, "an Event with the reason", func(ctx context.Context) error {
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

// testRankLabelValues compares the API server's result with that of the engine for the same
// labels.
func testRankLabelValues(t *testing.T, m *manager, ns string) {
	values := []string{"", "0", "1", "03", "9.5", "x", "999999999", "1000000000"}
	for _, offset := range values {
		for _, index := range values {
			for _, kind := range [][]string{
				{batchv1.JobCompletionIndexAnnotation},
				{appsv1.PodIndexLabel},
				{},
				{appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation},
			} {
				if len(kind) != 1 && index != "1" {
					continue // the case was tested before
				}
				labels := map[string]string{gang.LabelRankOffset: offset, gang.LabelRank: "user"}
				for _, k := range kind {
					labels[k] = index
				}
				checkRankLabel(t, m, ns, labels)
			}
		}
	}
}

func checkRankLabel(t *testing.T, m *manager, ns string, labels map[string]string) {
	t.Helper()
	want, errs := gang.PodRank(labels)
	p, err := m.dryRunPod(t.Context(), ns, labels)
	switch {
	case len(errs) == 0 && err != nil:
		t.Errorf("%v: denied: %v", labels, err)
	case len(errs) == 0 && p.Labels[gang.LabelRank] != strconv.Itoa(int(want)):
		t.Errorf("%v: rank %q, want %d", labels, p.Labels[gang.LabelRank], want)
	case len(errs) > 0 && !apierrors.IsInvalid(err):
		t.Errorf("%v: %v, want a denial with: %v", labels, err, errs.ToAggregate())
	case len(errs) > 0:
		// The policy, the webhook and RankOf must report the first error with the same text.
		text, _, _ := strings.Cut(errs[0].Error(), ";")
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: the denial does not contain %q: %v", labels, text, err)
		}
	}
}

// testRankLabelUnchanged checks that pods without the offset label keep their labels, as do pods of
// the cluster and of the release.
func testRankLabelUnchanged(t *testing.T, m *manager, ns string) {
	for name, c := range map[string]struct {
		namespace string
		labels    map[string]string
	}{
		"rank without offset belongs to the user": {
			namespace: ns,
			labels:    map[string]string{gang.LabelRank: "user", appsv1.PodIndexLabel: "x"},
		},
		"no labels": {namespace: ns},
		"kube-system is excluded": {
			namespace: metav1.NamespaceSystem,
			labels:    map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "3"},
		},
		"own namespace is excluded": {
			namespace: installation.Namespace,
			labels:    map[string]string{gang.LabelRankOffset: "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := m.dryRunPod(t.Context(), c.namespace, maps.Clone(c.labels))
			if err != nil {
				t.Fatalf("the pod was denied: %v", err)
			}
			if diff := cmp.Diff(c.labels, p.Labels); diff != "" {
				t.Errorf("labels: -want, +got:\n%s", diff)
			}
		})
	}
}

// testRankMetrics checks that the API server calls the manager for pods only in the mode webhook.
func testRankMetrics(t *testing.T, m *manager, mode string) {
	var text strings.Builder
	if err := m.Webhook.WriteMetrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(text.String()))
	if called := slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "rollcall_pod_rank_admission_requests_total{")
	}); called != (mode == "webhook") {
		t.Errorf("called for pods: %v, with the mode %s", called, mode)
	}
	for _, want := range []string{
		`rollcall_pod_rank_admission_requests_total{kind="Job",reason="Injected",result="allowed"}`,
		`rollcall_pod_rank_admission_requests_total{kind="StatefulSet",reason="Invalid",result="denied"}`,
	} {
		if mode == "webhook" && !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// testRankWithoutManager checks that unrelated pods are not affected while Rollcall is unavailable.
// With the webhook, pods of gangs are denied. With the policy, they get their rank.
func testRankWithoutManager(t *testing.T, m *manager, ns, mode string) {
	m.Stop(t)
	if _, err := m.dryRunPod(t.Context(), ns, nil); err != nil {
		t.Errorf("a plain pod was denied: %v", err)
	}
	m.createJob(t, ns, newWorkersJob(2, map[string]string{gang.LabelRankOffset: "1"}))
	if mode == "webhook" {
		_, err := m.dryRunPod(t.Context(), ns, map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "0"})
		if err == nil || !strings.Contains(err.Error(), installation.RankWebhook) {
			t.Errorf("want a denial that names the webhook, got %v", err)
		}
		m.Start(t)
	}
	got := m.waitForRankLabels(t, ns, batchv1.JobCompletionIndexAnnotation, 2)
	if diff := cmp.Diff(map[string]string{"0": "1", "1": "2"}, got); diff != "" {
		t.Errorf("ranks by index: -want, +got:\n%s", diff)
	}
}

// testRankAssignmentRemoved removes the implementation that assigns ranks, as an upgrade from
// webhook to policy does for a moment. It must run last.
func testRankAssignmentRemoved(t *testing.T, m *manager, ns, mode string) {
	api := m.Client.AdmissionregistrationV1()
	if mode == "policy" {
		if err := api.MutatingAdmissionPolicyBindings().Delete(
			t.Context(), installation.RankPolicy, metav1.DeleteOptions{},
		); err != nil {
			t.Fatal(err)
		}
	} else {
		patch := []byte(`{"webhooks":[{"name":"` + installation.RankWebhook + `","rules":null}]}`)
		if _, err := api.MutatingWebhookConfigurations().Patch(
			t.Context(), installation.Release, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{gang.LabelRankOffset: "1", appsv1.PodIndexLabel: "2"}
	wait.For(t, "a denial", func(ctx context.Context) error {
		switch p, err := m.dryRunPod(ctx, ns, labels); {
		case err == nil && p.Labels[gang.LabelRank] != "3":
			t.Fatalf("a pod was admitted with the rank %q", p.Labels[gang.LabelRank])
		case err == nil:
			return errors.New("the rank is still assigned")
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `must be "3"`):
			t.Fatalf("denied with %v, want the correct rank in the message", err)
		}
		return nil
	})
	// The check accepts a correct rank regardless of who set it.
	labels[gang.LabelRank] = "3"
	if _, err := m.dryRunPod(t.Context(), ns, labels); err != nil {
		t.Errorf("a pod with the correct rank was denied: %v", err)
	}
}

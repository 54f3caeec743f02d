package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

const (
	policyName = installation.Release + "-policy"
	// limitsFile has the limits of these tests. The Jobs of [newLimitedJob] satisfy it.
	limitsFile = `
apiVersion: policy.rollcall.training/v1alpha1
kind: GangPolicy
contact: "#gpu-admins"
cluster:
  limits:
    size: {max: 4}
    gpus: {max: 32}
    restarts: {max: 2}
    runtime: {required: true, max: 1h}
    ttl: {required: true, max: 1h, mode: warn}
    labels: {require: {team: "[a-z]+"}}
  defaults:
    nodeSelector: {pool: {value: shared, locked: true}}
  rules:
  - name: no-spot
    expression: "!('spot' in gang.labels)"
    message: remove the label spot
    mode: audit
profiles:
- name: interactive
  namespaces: {selector: {matchLabels: {tier: interactive}}}
  limits: {size: {max: 1}}
`
	// strictFile denies every gang of these tests.
	strictFile = `
apiVersion: policy.rollcall.training/v1alpha1
kind: GangPolicy
cluster:
  limits: {size: {max: 1}, restarts: {max: 0}, runtime: {required: true, max: 1s}, gpus: {max: 0}}
`
	misspelledFile = "apiVersion: policy.rollcall.training/v1alpha1\nkind: GangPolicy\n" +
		"cluster: {limits: {sizes: {max: 1}}}\n"
)

// newLimitedJob returns a Job that satisfies limitsFile.
func newLimitedJob(name string, ranks int32) *batchv1.Job {
	j := newJob(name, ranks)
	j.Labels["team"] = "llm"
	j.Annotations = map[string]string{gang.AnnotationMaxRestarts: "2"}
	j.Spec.BackoffLimit = nil
	j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	j.Spec.TTLSecondsAfterFinished = ptr.To[int32](3600)
	j.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	return j
}

// TestPolicy enforces a policy on a real API server, with the credentials and the webhooks of the chart.
func TestPolicy(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := "policy:\n  enabled: true\n  file:" + strings.ReplaceAll(limitsFile, "\n", "\n    ")
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.NewWithChart(t, c, []string{"--values", values})}
	m.waitForPolicyWebhook(t)
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Creation":     testPolicyOfCreation,
		"JobUpdates":   testPolicyOfJobUpdates,
		"StatefulSets": testPolicyOfStatefulSets,
		"Members":      testPolicyOfMembers,
		"Namespaces":   testPolicyOfNamespaces,
		"BadFile":      testBadPolicyFile,
		"Recorded":     testAttackRecordedPolicy,
	})
	// These cases change the policy or stop processes.
	for _, test := range []struct {
		name string
		run  func(*testing.T, *manager, string)
	}{
		{"WithoutWebhook", testPolicyWithoutWebhook},
		{"StricterPolicy", testStricterPolicy},
		{"Restart", testPolicyRestart},
		{"Page", testPolicyPage},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, m, m.createNamespace(t)) })
	}
}

// waitForPolicyWebhook waits until API servers call the webhooks of the policy.
func (m *manager) waitForPolicyWebhook(t *testing.T) {
	t.Helper()
	ns := m.createNamespace(t)
	m.createJob(t, ns, newLimitedJob("probe", 1))
	wait.For(t, "a denied update", func(ctx context.Context) error {
		_, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "probe", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"team":null}}}`), dryRunPatch)
		if err == nil {
			return errors.New("the update was permitted")
		}
		if !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
}

func testPolicyOfCreation(t *testing.T, m *manager, ns string) {
	client, warnings := m.newWarningClient(t)
	large := newLimitedJob("large", 5)
	large.Spec.ActiveDeadlineSeconds, large.Spec.TTLSecondsAfterFinished = nil, nil
	_, err := client.BatchV1().Jobs(ns).Create(t.Context(), large, metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		t.Fatalf("creating a gang that violates the policy returned %v, want code 422", err)
	}
	var causes []string
	for _, c := range status.Status().Details.Causes {
		causes = append(causes, c.Field+": "+c.Message)
	}
	want := []string{
		"spec.parallelism: Invalid value: 5: makes a gang of 40 accelerators (5 pods x 8), at most 32 are allowed; " +
			"use at most 4 pods, or ask #gpu-admins (policy cluster/gpus)",
		"spec.activeDeadlineSeconds: Forbidden: is required: the maximum runtime in seconds, at most 3600 (1h), " +
			"or ask #gpu-admins (policy cluster/runtime)",
		"spec.parallelism: Invalid value: 5: makes a gang of 5 pods, at most 4 are allowed, or ask #gpu-admins " +
			"(policy cluster/size)",
	}
	if diff := cmp.Diff(want, causes); diff != "" {
		t.Error("causes (-want +got):\n" + diff)
	}
	small := newLimitedJob("small", 4)
	small.Spec.TTLSecondsAfterFinished = nil
	if _, err := client.BatchV1().Jobs(ns).Create(t.Context(), small, metav1.CreateOptions{}); err != nil {
		t.Fatalf("the message names 4 pods, but this gang is denied: %v", err)
	}
	if got := strings.Join(warnings.messages, "\n"); !strings.Contains(got, "spec.ttlSecondsAfterFinished: is required") {
		t.Errorf("the warnings do not contain the limit in the mode warn:\n%s", got)
	}
}

// testPolicyOfJobUpdates tries each way around a limit by an update, and each update that must pass.
func testPolicyOfJobUpdates(t *testing.T, m *manager, ns string) {
	suspended := newLimitedJob("suspended", 4)
	suspended.Spec.Suspend = ptr.To(true)
	m.createJob(t, ns, newLimitedJob("train", 4))
	m.createJob(t, ns, suspended)
	m.createJob(t, ns, newLimitedJob("without-record", 4))
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(t.Context(), "without-record", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"rollcall.training/injected":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		job, patch, rule string // without a rule, the update passes
	}{
		"more restarts": {
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"100"}}}`, rule: "cluster/restarts"},
		"no number of restarts": {
			patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":null}}}`, rule: "cluster/restarts"},
		"no maximum runtime":     {patch: `{"spec":{"activeDeadlineSeconds":null}}`, rule: "cluster/runtime"},
		"a longer runtime":       {patch: `{"spec":{"activeDeadlineSeconds":7200}}`, rule: "cluster/runtime"},
		"no required label":      {patch: `{"metadata":{"labels":{"team":null}}}`, rule: "cluster/labels"},
		"another required label": {patch: `{"metadata":{"labels":{"team":"X"}}}`, rule: "cluster/labels"},
		"more accelerators": {job: "suspended", rule: "cluster/gpus",
			patch: `{"spec":{"template":{"spec":{"containers":[{"name":"trainer","resources":{` +
				`"limits":{"nvidia.com/gpu":"16"},"requests":{"nvidia.com/gpu":"16"}}}]}}}}`},
		"another node selector": {job: "suspended", rule: "cluster/defaults.nodeSelector",
			patch: `{"spec":{"suspend":false,"template":{"spec":{"nodeSelector":{"pool":"reserved"}}}}}`},
		"no maximum runtime and no record": {rule: "cluster/runtime",
			patch: `{"metadata":{"annotations":{"rollcall.training/injected":null}},"spec":{"activeDeadlineSeconds":null}}`},
		"no maximum runtime after the removal of the record": {job: "without-record", rule: "cluster/runtime",
			patch: `{"spec":{"activeDeadlineSeconds":null}}`},
		"another label of the node": {job: "suspended",
			patch: `{"spec":{"suspend":false,"template":{"spec":{"nodeSelector":{"zone":"a"}}}}}`},
		"a suspension":      {patch: `{"spec":{"suspend":true}}`},
		"a finalizer":       {patch: `{"metadata":{"finalizers":["example.com/hold"]}}`},
		"fewer restarts":    {patch: `{"metadata":{"annotations":{"rollcall.training/max-restarts":"1"}}}`},
		"another label":     {patch: `{"metadata":{"labels":{"app":"x"}}}`},
		"no time to live":   {patch: `{"spec":{"ttlSecondsAfterFinished":null}}`},
		"a label for audit": {patch: `{"metadata":{"labels":{"spot":""}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == "" {
				job = "train"
			}
			_, err := m.Client.BatchV1().Jobs(ns).
				Patch(t.Context(), job, types.StrategicMergePatchType, []byte(test.patch), dryRunPatch)
			switch {
			case test.rule == "" && err != nil:
				t.Errorf("the update was denied: %v", err)
			case test.rule != "" && apierrors.IsInvalid(err) && !strings.Contains(err.Error(), test.rule) &&
				strings.Contains(err.Error(), "field is immutable"):
				t.Skipf("this release of Kubernetes does not permit the update: %v", err)
			case test.rule != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.rule)):
				t.Errorf("the update returned %v, want a denial by %s", err, test.rule)
			}
		})
	}
}

// testPolicyOfStatefulSets scales a StatefulSet beyond the limit by an update, and by the scale
// subresource, which reaches no webhook.
func testPolicyOfStatefulSets(t *testing.T, m *manager, ns string) {
	set := newStatefulSet("train", 2)
	set.Labels["team"] = "llm"
	set.Annotations = map[string]string{gang.AnnotationMaxRestarts: "2"}
	sets := m.Client.AppsV1().StatefulSets(ns)
	_, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	if !strings.Contains(fmt.Sprint(err), "cluster/runtime") {
		t.Fatalf("a StatefulSet has no maximum runtime, but its creation returned %v", err)
	}
	m.exemptFromRuntime(t, ns)
	wait.For(t, "the exemption", func(ctx context.Context) error {
		_, err := sets.Create(ctx, set, metav1.CreateOptions{})
		return err
	})
	_, err = sets.Patch(
		t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	if !strings.Contains(fmt.Sprint(err), "cluster/size") {
		t.Errorf("scaling by an update returned %v, want a denial by cluster/size", err)
	}
	if _, err := sets.UpdateScale(t.Context(), "train", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "train"}, Spec: autoscalingv1.ScaleSpec{Replicas: 5},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.waitForEvent(t, ns, gang.ReasonResizeRejected)
	wait.For(t, "the recorded size", func(ctx context.Context) error {
		live, err := sets.Get(ctx, "train", metav1.GetOptions{})
		if err == nil && (*live.Spec.Replicas != 2 || live.Status.Replicas != 2) {
			err = fmt.Errorf("%d replicas, %d pods", *live.Spec.Replicas, live.Status.Replicas)
		}
		return err
	})
	live, err := sets.Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := lifecycle.ReadStatus(gang.Workload{StatefulSet: live}); s.Restarts != 0 || s.FirstFailure != nil {
		t.Errorf("the gang has restarted: %+v", s)
	}
	// A size within the limit is permitted.
	if _, err := sets.UpdateScale(t.Context(), "train", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "train"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "three ranks", func(ctx context.Context) error {
		live, err := sets.Get(ctx, "train", metav1.GetOptions{})
		if err == nil && live.Labels[gang.LabelSize] != "3" {
			err = errors.New(live.Labels[gang.LabelSize])
		}
		return err
	})
	testRevertedResizes(t, m, ns)
}

// testRevertedResizes scales StatefulSets without an admitted size, or to a size that the policy cannot judge.
func testRevertedResizes(t *testing.T, m *manager, ns string) {
	sets := m.Client.AppsV1().StatefulSets(ns)
	for name, test := range map[string]struct {
		workload string
		created  int32
		roles    string
	}{
		"first size":         {"empty", 0, ""},
		"size of a role":     {"roles-worker", 2, "master=1,worker=2"},
		"first size of role": {"first-worker", 0, "master=1,worker=2"},
	} {
		t.Run(name, func(t *testing.T) {
			set := newStatefulSet(test.workload, test.created)
			set.Labels["team"] = "llm"
			set.Annotations = map[string]string{gang.AnnotationMaxRestarts: "2"}
			if gangName, isRole := strings.CutSuffix(test.workload, "-worker"); isRole {
				set.Labels[gang.LabelGang], set.Labels[gang.LabelRole] = gangName, "worker"
				set.Annotations[gang.AnnotationRoles] = test.roles
			}
			m.createStatefulSet(t, ns, set)
			if _, err := sets.UpdateScale(t.Context(), test.workload, &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: test.workload}, Spec: autoscalingv1.ScaleSpec{Replicas: 50},
			}, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			wait.For(t, "the recorded size", func(ctx context.Context) error {
				live, err := sets.Get(ctx, test.workload, metav1.GetOptions{})
				if err == nil && (*live.Spec.Replicas != test.created || live.Status.Replicas != test.created) {
					err = fmt.Errorf("%d replicas, %d pods", *live.Spec.Replicas, live.Status.Replicas)
				}
				return err
			})
		})
	}
}

// exemptFromRuntime adds an exemption for a namespace to limitsFile.
func (m *manager) exemptFromRuntime(t *testing.T, ns string) {
	t.Helper()
	m.writePolicy(t, limitsFile+fmt.Sprintf("exemptions: [{rule: cluster/runtime, namespace: %s, gangs: ['*'], "+
		"until: %q, reason: test}]\n", ns, time.Now().AddDate(0, 0, 2).UTC().Format(time.DateOnly)))
}

// writePolicy replaces the policy.
func (m *manager) writePolicy(t *testing.T, text string) {
	t.Helper()
	if err := m.tryWritePolicy(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

func (m *manager) tryWritePolicy(ctx context.Context, text string) error {
	_, err := m.Client.CoreV1().ConfigMaps(installation.Namespace).Update(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: installation.Namespace, Name: policyName},
		Data:       map[string]string{"policy.yaml": text},
	}, metav1.UpdateOptions{})
	return err
}

// testPolicyOfMembers creates a gang of two workloads, of which each is within the limit.
func testPolicyOfMembers(t *testing.T, m *manager, ns string) {
	for role, ranks := range map[string]int32{"master": 1, "worker": 3} {
		j := newLimitedJob("train-"+role, ranks)
		j.Labels[gang.LabelRole], j.Annotations[gang.AnnotationRoles] = role, "master=1,worker=3"
		if role == "master" {
			j.Spec.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("16")
		}
		m.createJob(t, ns, j)
	}
	m.waitForEvent(t, ns, gang.ReasonPolicyViolated)
	wait.For(t, "the status of both members", func(ctx context.Context) error {
		for _, name := range []string{"train-master", "train-worker"} {
			job, err := m.Client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			s := parseReportedStatus(gang.Workload{Job: job})
			if s.Reason != gang.ReasonPolicyViolated || !strings.Contains(s.Message, "40 accelerators") {
				return fmt.Errorf("%s has the status %+v", name, s)
			}
		}
		return nil
	})
}

// testPolicyOfNamespaces checks that the labels of a namespace select its profile, for admission and for
// gangs that exist.
func testPolicyOfNamespaces(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newLimitedJob("train", 2))
	m.labelNamespace(t, ns, `{"tier":"interactive"}`)
	wait.For(t, "the profile of the namespace", func(ctx context.Context) error {
		_, err := m.Client.BatchV1().Jobs(ns).Create(ctx, newLimitedJob("next", 2), dryRunCreate)
		if !strings.Contains(fmt.Sprint(err), "interactive/size") {
			return errors.Join(errors.New("the profile does not deny a gang of two pods"), err)
		}
		return nil
	})
	// The next event of the gang causes the pass.
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(t.Context(), "train", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"x"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m.waitForEvent(t, ns, gang.ReasonPolicyViolated)
}

// testBadPolicyFile applies files with mistakes, which the webhook denies.
func testBadPolicyFile(t *testing.T, m *manager, _ string) {
	err := m.tryWritePolicy(t.Context(), misspelledFile)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "policy.yaml:3") ||
		!strings.Contains(err.Error(), "did you mean size?") {
		t.Errorf("applying a file with a misspelled key returned %v, want its line and the fix", err)
	}
	_, err = m.Client.CoreV1().ConfigMaps(installation.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Data: map[string]string{"policy.yaml": misspelledFile},
	}, dryRunCreate)
	if err != nil {
		t.Errorf("creating another ConfigMap returned %v", err)
	}
}

// testPolicyWithoutWebhook checks that without a webhook no update bypasses the policy, and that the
// updates of controllers pass.
func testPolicyWithoutWebhook(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newLimitedJob("train", 2))
	m.Webhook.Stop(t)
	defer m.Webhook.Start(t)
	for patch, passes := range map[string]bool{
		`{"metadata":{"annotations":{"rollcall.training/max-restarts":"100"}}}`: false,
		`{"spec":{"activeDeadlineSeconds":null}}`:                               false,
		`{"spec":{"suspend":true}}`:                                             true,
		`{"metadata":{"finalizers":["example.com/hold"]}}`:                      true,
	} {
		_, err := m.Client.BatchV1().Jobs(ns).Patch(t.Context(), "train", types.MergePatchType, []byte(patch), dryRunPatch)
		if (err == nil) != passes {
			t.Errorf("%s returned %v, passes: %t", patch, err, passes)
		}
	}
	_, err := m.Client.BatchV1().Jobs(ns).Patch(t.Context(), "train", types.MergePatchType,
		[]byte(`{"status":{"active":1}}`), dryRunPatch, "status")
	if err != nil {
		t.Errorf("an update of the status returned %v", err)
	}
}

// testStricterPolicy checks that gangs that violate a new policy are reported, and that they run,
// restart, finish and are deleted.
func testStricterPolicy(t *testing.T, m *manager, ns string) {
	m.runFakeKubelet(t, ns, func(corev1.Pod) bool { return false })
	m.createJob(t, ns, newLimitedJob("train", 2))
	m.waitForJobPhase(t, ns, "Running", "GangRunning")
	m.writePolicy(t, strictFile)
	m.waitForEvent(t, ns, gang.ReasonPolicyViolated)
	for name, patch := range map[string]string{
		"suspension": `{"spec":{"suspend":true}}`,
		"finalizer":  `{"metadata":{"finalizers":["example.com/hold"]}}`,
		"label":      `{"metadata":{"labels":{"app":"x"}}}`,
	} {
		_, err := m.Client.BatchV1().Jobs(ns).
			Patch(t.Context(), "train", types.MergePatchType, []byte(patch), dryRunPatch)
		if err != nil {
			t.Errorf("the %s of a gang that violates the policy returned %v", name, err)
		}
	}
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods[:1], corev1.PodFailed)
	m.waitForEvent(t, ns, gang.ReasonGangRestarting)
	wait.For(t, "the restarted gang", func(ctx context.Context) error {
		job, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := job.Annotations[gang.AnnotationStatus]
		if !strings.Contains(status, `"restarts":1`) || job.Labels[gang.LabelPhase] != "Running" {
			return errors.New(status)
		}
		return nil
	})
	m.deleteJob(t, ns, "train")
	_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), newLimitedJob("next", 2), metav1.CreateOptions{})
	if err == nil {
		t.Error("a new gang is not subject to the stricter policy")
	}
}

// testPolicyRestart checks that a file with mistakes leaves the last valid policy in force, also after a
// restart, and that a process without any valid policy is not ready.
func testPolicyRestart(t *testing.T, m *manager, ns string) {
	m.writePolicy(t, limitsFile)
	m.waitForAccepted(t, limitsFile)
	m.Webhook.Stop(t) // nobody checks the file
	m.writePolicy(t, misspelledFile)
	m.Webhook.Start(t)
	m.Controller.Stop(t)
	m.Controller.Start(t)
	large := newLimitedJob("large", 5)
	_, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), large, dryRunCreate)
	if !strings.Contains(fmt.Sprint(err), "cluster/size") {
		t.Errorf("after a restart with a bad file, a large gang returned %v, want a denial by cluster/size", err)
	}
	m.createJob(t, ns, newLimitedJob("train", 2))
	m.waitForEvent(t, installation.Namespace, gang.ReasonPolicyRejected)
	m.waitForEvent(t, installation.Namespace, gang.ReasonPolicyLoaded)
	var metrics bytes.Buffer
	err = m.Webhook.WriteMetrics(t.Context(), &metrics)
	if err != nil || !strings.Contains(metrics.String(), "\nrollcall_policy_valid 0\n") {
		t.Errorf("the metric rollcall_policy_valid is not 0, %v", err)
	}

	if err := m.Client.CoreV1().ConfigMaps(installation.Namespace).
		Delete(t.Context(), policyName+"-accepted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Webhook.Stop(t)
	m.Webhook.Launch(t)
	wait.For(t, "a webhook that is not ready", func(ctx context.Context) error {
		err := m.Webhook.CheckReadiness(ctx, "policy")
		if err == nil {
			return errors.New("the webhook is ready")
		}
		if !strings.Contains(err.Error(), "there is no last valid policy") {
			return err
		}
		return nil
	})
	m.writePolicy(t, limitsFile) // the failure policy of the webhook for the file is Ignore
	m.Webhook.WaitUntilReady(t)
}

// waitForAccepted waits until the controller has written a policy to the ConfigMap for restarts.
func (m *manager) waitForAccepted(t *testing.T, text string) {
	t.Helper()
	wait.For(t, "the accepted policy", func(ctx context.Context) error {
		accepted, err := m.Client.CoreV1().ConfigMaps(installation.Namespace).
			Get(ctx, policyName+"-accepted", metav1.GetOptions{})
		if err == nil && accepted.Data["policy.yaml"] != text {
			err = fmt.Errorf("the accepted policy is %q", accepted.Data["policy.yaml"])
		}
		return err
	})
}

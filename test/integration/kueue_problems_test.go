package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// testQueuedOnOtherFlavor checks that a gang that is evicted and admitted to another flavor leaves the nodes of the
// first. Somebody reduces its Workload to one pod in between.
func testQueuedOnOtherFlavor(t *testing.T, k *queuedGangs, ns string) {
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	k.setWorkloadActive(t, ns, false)
	r.waitForPhase(lifecycle.Suspended, 0)
	k.waitForGPUsInUse(t, ns, 0)
	k.createQueueWith(t, ns, newQuota("a100", 0)+","+newQuota("h100", 8), "")
	w := k.getWorkload(t, ns, "train")
	uid, sets := w.GetUID(), w.Object["spec"].(map[string]any)["podSets"].([]any)
	sets[0].(map[string]any)["count"] = int64(1)
	if _, err := k.workloads.Namespace(ns).Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "another Workload", func(context.Context) error {
		if w := k.getWorkload(t, ns, "train"); w == nil || w.GetUID() == uid {
			return errors.New("the reduced Workload exists")
		}
		return nil
	})
	r.waitForPhase(lifecycle.Running, 0)
	pods := r.listActivePods()
	for name, p := range pods {
		if p.Spec.NodeSelector["example.com/gpu"] != "h100" || slices.ContainsFunc(p.Spec.Tolerations, toleratesGPU) {
			t.Errorf("%s has node selector %v and tolerations %v", name, p.Spec.NodeSelector, p.Spec.Tolerations)
		}
	}
	if len(pods) != 8 {
		t.Errorf("%d pods", len(pods))
	}
}

// testQueuedUnsupportedAdmission checks that a gang gives back an admission with a change of its pods, and that its
// user can activate it again.
func testQueuedUnsupportedAdmission(t *testing.T, k *queuedGangs, ns string) {
	k.runFakeKubelet(t, ns, nil)
	k.applyManifest(t, "", fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, `+
		`metadata: {name: %s}, spec: {controllerName: example.com/check}}`, ns))
	const active = `{"status":{"conditions":[{"type":"Active","status":"True","reason":"Active","message":"",` +
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	_, err := k.Cluster.Kubectl(t.Context(), "patch", "admissionchecks.v1beta2.kueue.x-k8s.io", ns,
		"--subresource=status", "--type=merge", "-p", active)
	if err != nil {
		t.Fatal(err)
	}
	k.createQueueWith(t, ns, newQuota("a100", 8), "admissionChecksStrategy: {admissionChecks: [{name: "+ns+"}]}")
	pass := func(updates string) {
		k.waitForGPUsInUse(t, ns, 8)
		wait.For(t, "the check to pass", func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"status":{"admissionChecks":[{"name":"%s","state":"Ready","message":"",`+
				`"lastTransitionTime":"2026-01-01T00:00:00Z","podSetUpdates":[%s]}]}}`, ns, updates)
			_, err := k.workloads.Namespace(ns).Patch(ctx, "train", "application/merge-patch+json", []byte(patch),
				metav1.PatchOptions{}, "status")
			return err
		})
	}
	r := k.createGang(t, ns, k.newGang("train")...)
	pass(`{"name":"ps","labels":{"a":"b"}}`)
	k.waitForGPUsInUse(t, ns, 0)
	k.waitForStatus(t, ns, "train", "deactivated", func(s kueue.Status) bool { return s.Unsupported && !s.MustRelease })
	k.waitForReason(r, "train-ps", gang.ReasonQueueUnavailable, "changes pods")
	at := k.getWorkload(t, ns, "train").GetResourceVersion()
	r.checkPhaseStable(2 * time.Second)
	if w := k.getWorkload(t, ns, "train"); w.GetResourceVersion() != at {
		t.Errorf("the Workload is written again: %v", w)
	}
	k.setWorkloadActive(t, ns, true)
	pass("")
	r.waitForPhase(lifecycle.Running, 0)
}

// waitForReason waits until the status of a Job has a reason and a text in its message.
func (k *queuedGangs) waitForReason(r *testGang, job string, reason gang.Reason, text string) {
	r.t.Helper()
	wait.For(r.t, fmt.Sprintf("the reason %s of %s", reason, job), func(context.Context) error {
		status := lifecycle.ReadStatus(gang.Workload{Job: r.getJob(job)})
		if status.Reason != reason || !strings.Contains(status.Message, text) {
			return fmt.Errorf("%s: %s", status.Reason, status.Message)
		}
		return nil
	})
}

// testQueuedNameTaken checks that a gang does not run without quota if somebody else has the name of its Workload.
func testQueuedNameTaken(t *testing.T, k *queuedGangs, ns string) {
	k.runFakeKubelet(t, ns, nil)
	k.createQueue(t, ns, 3)
	foreign, err := kueue.Build(kueue.Spec{Namespace: ns, Name: "train", Queue: "other", PodSets: []kueue.PodSet{{
		Name: "main", Count: 1, Template: *k.newGang("train")[0].Template(),
	}}})
	if err == nil {
		_, err = k.workloads.Namespace(ns).Create(t.Context(), foreign, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	r := k.createGang(t, ns, newQueuedLauncherAndWorkers()...)
	k.waitForReason(r, "train-launcher", gang.ReasonQueueUnavailable, "is not of this gang")
	wait.For(t, "the status of the workers", func(ctx context.Context) error { // it is written after that of the launcher
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		if s := lifecycle.ReadStatus(all[len(all)-1]); s.Reason != gang.ReasonQueueUnavailable {
			return fmt.Errorf("%s: %s", s.Reason, s.Message)
		}
		return nil
	})
	wait.For(t, "the workers to be scaled to 0", func(ctx context.Context) error { // the controller can lag behind
		set, err := k.Client.AppsV1().StatefulSets(ns).Get(ctx, "train-worker", metav1.GetOptions{})
		if err == nil && (*set.Spec.Replicas > 0 || set.Status.ObservedGeneration < set.Generation) {
			err = fmt.Errorf("%d replicas, generation %d of %d",
				*set.Spec.Replicas, set.Status.ObservedGeneration, set.Generation)
		}
		return err
	})
	r.waitForPodsGone("worker")
	r.checkPhaseStable(2 * time.Second)
	if pods := r.listActivePods(); len(pods) > 0 {
		t.Errorf("%d pods run without quota", len(pods))
	}
	if err := k.workloads.Namespace(ns).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitForPhase(lifecycle.Running, 0)
	k.waitForGPUsInUse(t, ns, 3)
}

// testAttackQueueWorkloads checks that the credentials of the controller do not permit changes of Workloads of others.
func testAttackQueueWorkloads(t *testing.T, k *queuedGangs, ns string) {
	config := rest.CopyConfig(k.Cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: installation.ControllerUser}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	attacker := client.Resource(kueue.Version.WithResource(kueue.Resource)).Namespace(ns)
	w, err := kueue.Build(kueue.Spec{Namespace: ns, Name: "victim", Queue: "team", PodSets: []kueue.PodSet{{
		Name: "main", Count: 1, Template: *k.newGang("victim")[0].Template(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.DeepCopy()
	foreign.SetLabels(map[string]string{injectors.LabelManagedBy: injectors.ManagedBy, gang.LabelGang: "victim"})
	foreign.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "x", UID: "x"},
	})
	requireDenied(t, map[string]attempt{"a Workload that an object of another API owns": {queuedPolicy,
		func(ctx context.Context) error {
			_, err := attacker.Create(ctx, foreign, dryRunCreate)
			return err
		}}})
	isDenied := func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) }
	if _, err := attacker.Create(t.Context(), w, metav1.CreateOptions{}); !isDenied(err) {
		t.Errorf("creating a Workload that is not of a gang: %v", err)
	}
	if _, err := k.workloads.Namespace(ns).Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, subresource := range [][]string{nil, {"status"}} {
		_, err := attacker.Patch(t.Context(), "victim", "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"a":"b"}},"status":{"conditions":[]}}`), metav1.PatchOptions{}, subresource...)
		if !isDenied(err) {
			t.Errorf("changing %v of a Workload of somebody else: %v", subresource, err)
		}
	}
	if err := attacker.Delete(t.Context(), "victim", metav1.DeleteOptions{}); !isDenied(err) {
		t.Errorf("deleting a Workload of somebody else: %v", err)
	}
}

// testAttackQueuedNodes checks that the credentials of the controller change the nodes of a gang only when it is
// resumed.
func testAttackQueuedNodes(t *testing.T, k *queuedGangs, ns string) {
	r := k.createGang(t, ns, k.newGang("train")...)
	r.waitForPhase(lifecycle.Suspended, 0)
	config := rest.CopyConfig(k.Cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: installation.ControllerUser}
	a := managerAttempts{kubernetes.NewForConfigOrDie(config), ns}
	const nodes = `"template":{"spec":{"nodeSelector":{"node-role":"x"},"tolerations":[{"operator":"Exists"}]}}`
	requireDenied(t, map[string]attempt{
		"nodes of a suspended Job": a.patchJob("train-ps", `{"spec":{`+nodes+`}}`),
	})
	if err := a.patchJob("train-ps", `{"spec":{"suspend":false,`+nodes+`}}`).send(t.Context()); err != nil {
		t.Errorf("resuming a Job on the nodes of a flavor: %v", err)
	}
}

// TestKueueWaitForPodsReady checks that a gang whose pods are not ready in time waits again as a whole, and that Kueue
// does not evict a gang that is ready or restarts.
func TestKueueWaitForPodsReady(t *testing.T) {
	const timeout = 20 * time.Second
	k := startQueuedGangs(t, fmt.Sprintf("waitForPodsReady: {timeout: %[1]s, recoveryTimeout: %[1]s, "+
		"requeuingStrategy: {backoffBaseSeconds: 1}}", timeout))
	requireStable := func(r *testGang, restarts int32) {
		before := r.listActivePods()
		r.checkPhaseStable(timeout + 2*time.Second)
		for name, p := range r.listActivePods() {
			if p.UID != before[name].UID {
				r.t.Errorf("%s was replaced", name)
			}
		}
		r.waitForPhase(lifecycle.Running, restarts)
	}
	k.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Late": func(t *testing.T, m *manager, ns string) {
			r := (&queuedGangs{m, k.workloads}).createLateGang(t, ns)
			requireStable(r, 0)
		},
		"Restart": func(t *testing.T, m *manager, ns string) {
			m.runFakeKubelet(t, ns, nil)
			m.createQueue(t, ns, 8)
			r := m.startGang(t, ns, k.newGang("train")...)
			r.failContainer(r.getActivePod("worker-1"), 3)
			r.waitForPhase(lifecycle.Running, 1)
			(&queuedGangs{m, k.workloads}).waitForReady(t, ns)
			requireStable(r, 1)
		},
	})
}

// createLateGang creates a gang whose pods do not become ready until Kueue evicted the gang. The gang then runs.
func (k *queuedGangs) createLateGang(t *testing.T, ns string) *testGang {
	t.Helper()
	var isSlow atomic.Bool
	isSlow.Store(true)
	k.runFakeKubelet(t, ns, func(corev1.Pod) bool { return isSlow.Load() })
	k.createQueue(t, ns, 8)
	r := k.createGang(t, ns, k.newGang("train")...)
	wait.For(t, "the gang to wait again", func(context.Context) error {
		w := k.getWorkload(t, ns, "train")
		if w == nil {
			return errors.New("no Workload")
		}
		count, _, err := unstructured.NestedInt64(w.Object, "status", "requeueState", "count")
		if err == nil && count == 0 {
			err = fmt.Errorf("the status is %v", w.Object["status"])
		}
		return err
	})
	isSlow.Store(false)
	r.waitForPhase(lifecycle.Running, 0)
	k.waitForReady(t, ns)
	return r
}

// waitForReady waits until the Workload of the gang says that its pods are ready, so that Kueue does not evict it.
func (k *queuedGangs) waitForReady(t *testing.T, ns string) {
	t.Helper()
	k.waitForStatus(t, ns, "train", "ready", func(s kueue.Status) bool { return s.ReportsReady })
}

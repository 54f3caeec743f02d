package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/pages"
	"rollcall.training/test/wait"
)

// queueLabel is the label of a Job with the name of its Kueue queue.
const queueLabel = gang.LabelQueueName

// TestKueue runs gangs in queues of Kueue, some with failing ranks.
func TestKueue(t *testing.T) {
	c := startCluster(t, withoutPodGC)
	if err := c.StartKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.New(t, c)}
	m.applyManifest(
		t, "", `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, `+
			`metadata: {name: a100}, spec: {nodeLabels: {example.com/gpu: a100}}}`,
	)
	for _, p := range []string{"low", "high"} {
		m.applyManifest(
			t, "", fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, `+
				`metadata: {name: %s}, value: %d}`,
				p, len(p)*100),
		)
	}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Admitted":      testKueueAdmitted,
		"Waits":         testKueueWaitsForQuota,
		"Restart":       testKueueRestart,
		"RankSucceeded": testKueueRestartAfterRankSucceeded,
		"MaxRestarts":   testKueueMaxRestarts,
		"Preempted":     testKueuePreempted,
		"Plain":         testKueuePlainJob,
		"MasterWorkers": testKueueMasterAndWorkers,
		"Deactivated":   testKueueDeactivated,
		"Evicted":       testKueueEvictedDuringRestart,
		"AvoidsNode":    testKueueAvoidsNode,
		"Page":          testKueuePage,
	})
	t.Run("ManagerKilled", func(t *testing.T) { testKueueManagerKilled(t, m, m.createNamespace(t)) })
	t.Run("WebhooksLast", func(t *testing.T) { testKueueWebhooksLast(t, m, m.createNamespace(t)) })
}

// testKueuePage follows the page with its own queue.
func testKueuePage(t *testing.T, m *manager, ns string) {
	const page = "docs/tasks/kueue.md"
	m.applyManifest(t, ns, readManifest(t, page, "queue.yaml"))
	m.runFakeKubelet(t, ns, nil)
	if n := pages.Follow(t, "../..", page, m.Cluster, ns, ""); n < 7 {
		t.Errorf("the page has only %d commands", n)
	}
}

func testKueueAdmitted(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.runFakeKubelet(t, ns, nil)
	r := m.createGang(t, ns, assignQueue("train", newTrainingWorkload(3))...)
	r.waitForPhase(lifecycle.Suspended, 0)
	r.checkPhaseStable(time.Second)
	m.createQueue(t, ns, 3)
	r.waitForPhase(lifecycle.Running, 0)
	for name, p := range r.listActivePods() {
		if p.Spec.NodeSelector["example.com/gpu"] != "a100" || envByName(p.Spec.Containers[0])["WORLD_SIZE"] != "3" {
			t.Errorf("%s: node selector %v, WORLD_SIZE %q",
				name, p.Spec.NodeSelector, envByName(p.Spec.Containers[0])["WORLD_SIZE"])
		}
		if n := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; n.String() != "1" {
			t.Errorf("%s has a limit of %s GPUs", name, n.String())
		}
	}
	m.waitForGPUsInUse(t, ns, 3)
	r.checkPhaseStable(time.Second)
}

func testKueueWaitsForQuota(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.runFakeKubelet(t, ns, nil)
	m.createQueue(t, ns, 3)
	first := m.createGang(t, ns, assignQueue("first", newTrainingWorkload(2))...)
	first.waitForPhase(lifecycle.Running, 0)
	second := m.createGang(t, ns, assignQueue("second", newTrainingWorkload(2))...)
	second.waitForPhase(lifecycle.Suspended, 0)
	second.checkPhaseStable(2 * time.Second)
	for _, p := range first.listActivePods() {
		first.succeedPod(p)
	}
	first.waitForPhase(lifecycle.Succeeded, 0)
	second.waitForPhase(lifecycle.Running, 0)
	m.waitForWorkloadCondition(t, ns, "first", "Finished", "True")
}

func testKueueRestart(t *testing.T, m *manager, ns string) {
	h := m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 3)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(3))...)
	before := r.listActivePods()
	at := h.countSuspends("train")
	terminate := r.beginRestart("worker-1", "worker-0")
	r.checkPhaseStable(2 * time.Second)
	terminate()
	s := r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	if s.FirstFailure == nil || s.FirstFailure.Rank != 1 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.checkPhaseStable(2 * time.Second)
	begin := time.Now()
	before = r.listActivePods()
	r.failContainer(r.getActivePod("worker-2"), 4)
	r.waitForPhase(lifecycle.Running, 2)
	r.checkPodsReplaced(before, "2")
	if took := time.Since(begin); took < lifecycle.Backoff(2)-time.Second {
		t.Errorf("the second restart took %s, less than the back-off", took)
	}
	if n := h.countSuspends("train") - at; n != 2 {
		t.Errorf("the Job was suspended %d times for 2 restarts", n)
	}
	m.waitForWorkloadCondition(t, ns, "train", "Admitted", "True")
	m.waitForWorkloadCondition(t, ns, "train", "Evicted", "")
}

// testKueueRestartAfterRankSucceeded checks that a rank whose quota Kueue gave away runs again with its peers.
func testKueueRestartAfterRankSucceeded(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 3)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(3))...)
	for attempt := range int32(2) {
		before := r.listActivePods()
		r.succeedPod(before["worker-2"])
		wait.For(t, "the quota of the completed rank to be reclaimed", func(ctx context.Context) error {
			out, err := m.Cluster.Kubectl(ctx, "-n", ns, "get", "workloads", "-o",
				"jsonpath={.items[*].status.reclaimablePods[*].count}")
			if err == nil && strings.TrimSpace(out) != "1" {
				err = errors.New("reclaimable: " + out)
			}
			return err
		})
		r.failContainer(before["worker-1"], 3)
		r.waitForPhase(lifecycle.Running, attempt+1)
		r.checkPodsReplaced(before, fmt.Sprint(attempt+1))
	}
	r.checkPhaseStable(2 * time.Second)
	if got := r.getJob("train").Labels[gang.LabelMaxExecutionTime]; got != fmt.Sprint(math.MaxInt32-1) {
		t.Errorf("the maximum execution time is %q", got)
	}
}

func testKueueMaxRestarts(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 2)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(2, gang.AnnotationMaxRestarts, "1"))...)
	next := &testGang{
		manager: m,
		t:       t,
		ns:      ns,
		jobs:    []string{m.createJob(t, ns, assignQueue("next", newTrainingWorkload(2))[0].Job).Name},
	}
	next.waitForPhase(lifecycle.Suspended, 0)
	r.failContainer(r.getActivePod("worker-0"), 9)
	r.waitForPhase(lifecycle.Running, 1)
	next.waitForPhase(lifecycle.Suspended, 0)
	r.failContainer(r.getActivePod("worker-1"), 5)
	r.waitForPhase(lifecycle.Failed, 1)
	r.waitForJobFailure("train")
	m.waitForWorkloadCondition(t, ns, "train", "Finished", "True")
	next.waitForPhase(lifecycle.Running, 0)
}

func testKueuePreempted(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 3)
	low := assignQueue("low", newTrainingWorkload(3))
	low[0].Job.Labels["kueue.x-k8s.io/priority-class"] = "low"
	r := m.startGang(t, ns, low...)
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	before := r.listActivePods()
	r.succeedPod(before["worker-2"]) // it runs again with its peers
	high := assignQueue("high", newTrainingWorkload(2))
	high[0].Job.Labels["kueue.x-k8s.io/priority-class"] = "high"
	first := m.createGang(t, ns, high...)
	r.waitForPhase(lifecycle.Suspended, 1)
	first.waitForPhase(lifecycle.Running, 0)
	version := r.getJob("low").Generation
	r.checkPhaseStable(2 * time.Second)
	if now := r.getJob("low").Generation; now != version {
		t.Errorf("the waiting Job changed %d times", now-version)
	}
	for _, p := range first.listActivePods() {
		first.succeedPod(p)
	}
	first.waitForPhase(lifecycle.Succeeded, 0)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "2")
	r.checkPhaseStable(2 * time.Second)
}

func testKueuePlainJob(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.runFakeKubelet(t, ns, nil)
	m.createQueue(t, ns, 1)
	j := newJob("plain", 1)
	j.Labels = map[string]string{queueLabel: "team"}
	j.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	m.createJob(t, ns, j)
	wait.For(t, "the plain Job to run", func(ctx context.Context) error {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "plain", metav1.GetOptions{})
		if err == nil && ptr.Deref(j.Status.Ready, 0) != 1 {
			err = errors.New("not ready")
		}
		if err == nil && len(j.Annotations) > 0 {
			t.Errorf("annotations: %v", j.Annotations)
		}
		return err
	})
}

func testKueueMasterAndWorkers(t *testing.T, m *manager, ns string) {
	h := m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 3)
	r := m.startGang(t, ns, assignQueue("train", newMasterAndWorkers()...)...)
	before := r.listActivePods()
	at := h.countSuspends("train-master") + h.countSuspends("train-worker")
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
	if n := h.countSuspends("train-master") + h.countSuspends("train-worker") - at; n != 2 {
		t.Errorf("the two Jobs were suspended %d times for one restart", n)
	}
	r.succeedPod(r.getActivePod("master-0"))
	r.waitForPhase(lifecycle.Succeeded, 1)
	r.waitForPodsGone("worker")
	m.waitForWorkloadCondition(t, ns, "train-master", "Finished", "True")
	// Kueue suspends a Job whose size decreases, because it no longer matches its Workload. The Job
	// completes nevertheless.
	if _, err := m.Cluster.Kubectl(
		t.Context(), "-n", ns, "wait", "job/train-worker", "--for=condition=Complete", "--timeout=60s",
	); err != nil {
		t.Errorf("the workers' Job: %v", err)
	}
	m.waitForGPUsInUse(t, ns, 0)
}

func testKueueDeactivated(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 2)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(2))...)
	before := r.listActivePods()
	m.setWorkloadActive(t, ns, false)
	r.waitForPhase(lifecycle.Suspended, 0)
	r.waitForPodsGone("worker")
	r.checkPhaseStable(2 * time.Second)
	m.setWorkloadActive(t, ns, true)
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPodsReplaced(before, "1") // an eviction uses up no restart, but its logs have another number
	r.checkPhaseStable(2 * time.Second)
}

// testKueueEvictedDuringRestart checks that Rollcall does not resume a gang that Kueue evicts
// during a restart.
func testKueueEvictedDuringRestart(t *testing.T, m *manager, ns string) {
	h := m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 2)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(2))...)
	before, at := r.listActivePods(), h.countSuspends("train")
	terminate := r.beginRestart("worker-0", "worker-1")
	m.setWorkloadActive(t, ns, false)
	m.waitForWorkloadCondition(t, ns, "train", "Evicted", "True")
	terminate()
	r.waitForPhase(lifecycle.Suspended, 1)
	r.waitForPodsGone("worker")
	r.checkPhaseStable(2 * time.Second)
	m.waitForGPUsInUse(t, ns, 0)
	m.setWorkloadActive(t, ns, true)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	if n := h.countSuspends("train") - at; n != 1 {
		t.Errorf("the Job was suspended %d times", n)
	}
	r.checkPhaseStable(2 * time.Second)
}

// testKueueManagerKilled kills the manager during a restart. Its webhook cannot be called when
// Kueue resumes the gang.
func testKueueManagerKilled(t *testing.T, m *manager, ns string) {
	m.recordJobHistory(t, ns)
	m.createQueue(t, ns, 2)
	r := m.startGang(t, ns, assignQueue("train", newTrainingWorkload(2))...)
	before := r.listActivePods()
	terminate := r.beginRestart("worker-0", "worker-1")
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	// Kueue reconciles the Job when the Job changes.
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(
		t.Context(), "train", types.MergePatchType, []byte(
			`{"metadata":{"annotations":{"example.com/touched":"1"}}}`,
		), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "Kueue to resume the Job", func(context.Context) error {
		if ptr.Deref(r.getJob("train").Spec.Suspend, false) {
			return errors.New("still suspended")
		}
		return nil
	})
	terminate()
	m.Start(t)
	s := r.waitForPhase(lifecycle.Running, 1)
	if s.Restarts != 1 {
		t.Errorf("%d restarts", s.Restarts)
	}
	for name, p := range r.listActivePods() {
		if p.UID == before[name].UID {
			t.Errorf("%s was not restarted", name)
		}
	}
	r.checkPhaseStable(2 * time.Second)
}

// testKueueWebhooksLast checks that Rollcall also works if the API server calls its webhooks before
// Kueue's. The API server calls webhooks in the order of their names.
func testKueueWebhooksLast(t *testing.T, m *manager, ns string) {
	const name = "kueue-mutating-webhook-configuration"
	hooks := m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := hooks.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "z-" + name},
		Webhooks:   c.Webhooks,
	}
	if _, err := hooks.Create(t.Context(), last, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // gives the API server time to observe the change
	testKueueAdmitted(t, m, ns)
}

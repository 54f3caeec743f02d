package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// queueLabel names the queue of a Job, for Kueue.
const queueLabel = gang.LabelQueue

// TestKueue lets Kueue queue gangs, and ranks of theirs fall.
func TestKueue(t *testing.T) {
	c := cluster.Start(t, withoutPodGC)
	if err := c.StartKueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.New(t, c)}
	m.applies(t, "", `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: a100}, spec: {nodeLabels: {example.com/gpu: a100}}}`)
	for _, p := range []string{"low", "high"} {
		m.applies(t, "", fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: %d}`, p, len(p)*100))
	}
	m.together(t, map[string]func(*testing.T, *manager, string){
		"Admitted":      testKueueAdmitted,
		"Waits":         testKueueWaits,
		"Restart":       testKueueRestart,
		"MaxRestarts":   testKueueMax,
		"Preempted":     testKueuePreempted,
		"Plain":         testKueuePlain,
		"MasterWorkers": testKueueMaster,
		"Deactivated":   testKueueDeactivated,
		"Evicted":       testKueueEvicted,
	})
	t.Run("Killed", func(t *testing.T) { testKueueKilled(t, m, m.namespace(t)) })
	t.Run("AfterRollcall", func(t *testing.T) { testKueueAfter(t, m, m.namespace(t)) })
}

func testKueueAdmitted(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.node(t, ns, nil)
	r := m.gangOf(t, ns, queued("train", training(3))...)
	r.reaches(gang.Suspended, 0)
	r.stays(time.Second)
	m.queue(t, ns, 3)
	r.reaches(gang.Running, 0)
	for name, p := range r.alive() {
		if p.Spec.NodeSelector["example.com/gpu"] != "a100" || env(p.Spec.Containers[0])["WORLD_SIZE"] != "3" {
			t.Errorf("%s: node selector %v, WORLD_SIZE %q", name, p.Spec.NodeSelector, env(p.Spec.Containers[0])["WORLD_SIZE"])
		}
		if n := p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]; n.String() != "1" {
			t.Errorf("%s has a limit of %s GPUs", name, n.String())
		}
	}
	m.uses(t, ns, 3)
	r.stays(time.Second)
}

func testKueueWaits(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.node(t, ns, nil)
	m.queue(t, ns, 3)
	first := m.gangOf(t, ns, queued("first", training(2))...)
	first.reaches(gang.Running, 0)
	second := m.gangOf(t, ns, queued("second", training(2))...)
	second.reaches(gang.Suspended, 0)
	second.stays(2 * time.Second)
	for _, p := range first.alive() {
		first.ends(p)
	}
	first.reaches(gang.Succeeded, 0)
	second.reaches(gang.Running, 0)
	m.workloadIs(t, ns, "first", "Finished", "True")
}

func testKueueRestart(t *testing.T, m *manager, ns string) {
	h := m.follows(t, ns)
	m.queue(t, ns, 3)
	r := m.trains(t, ns, queued("train", training(3))...)
	before := r.alive()
	at := h.times("train")
	last := r.pod("worker-0")
	r.keeps(last)
	r.falls(r.pod("worker-1"), 3)
	r.reaches(gang.Restarting, 1)
	r.stays(2 * time.Second)
	r.lets(last)
	s := r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	if s.Cause == nil || s.Cause.Rank != 1 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.stays(2 * time.Second)
	begin := time.Now()
	before = r.alive()
	r.falls(r.pod("worker-2"), 4)
	r.reaches(gang.Running, 2)
	r.fresh(before, "2")
	if took := time.Since(begin); took < gang.Backoff(2)-time.Second {
		t.Errorf("the second restart took %s, less than its back-off", took)
	}
	if n := h.times("train") - at; n != 2 {
		t.Errorf("the Job was suspended %d times for 2 restarts", n)
	}
	m.workloadIs(t, ns, "train", "Admitted", "True")
	m.workloadIs(t, ns, "train", "Evicted", "")
}

func testKueueMax(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.queue(t, ns, 2)
	r := m.trains(t, ns, queued("train", training(2, gang.AnnotationMaxRestarts, "1"))...)
	next := &trainee{manager: m, t: t, ns: ns, jobs: []string{m.createJob(t, ns, queued("next", training(2))[0].Job).Name}}
	next.reaches(gang.Suspended, 0)
	r.falls(r.pod("worker-0"), 9)
	r.reaches(gang.Running, 1)
	next.reaches(gang.Suspended, 0)
	r.falls(r.pod("worker-1"), 5)
	r.reaches(gang.Failed, 1)
	r.jobFailed("train")
	m.workloadIs(t, ns, "train", "Finished", "True")
	next.reaches(gang.Running, 0)
}

func testKueuePreempted(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.queue(t, ns, 3)
	low := queued("low", training(3))
	low[0].Job.Labels["kueue.x-k8s.io/priority-class"] = "low"
	r := m.trains(t, ns, low...)
	r.falls(r.pod("worker-1"), 3)
	r.reaches(gang.Running, 1)
	before := r.alive()
	high := queued("high", training(1))
	high[0].Job.Labels["kueue.x-k8s.io/priority-class"] = "high"
	first := m.gangOf(t, ns, high...)
	r.reaches(gang.Suspended, 1)
	first.reaches(gang.Running, 0)
	version := r.get("low").Generation
	r.stays(2 * time.Second)
	if now := r.get("low").Generation; now != version {
		t.Errorf("the Job that waits changed %d times", now-version)
	}
	for _, p := range first.alive() {
		first.ends(p)
	}
	first.reaches(gang.Succeeded, 0)
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

func testKueuePlain(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.node(t, ns, nil)
	m.queue(t, ns, 1)
	j := job("plain", 1)
	j.Labels = map[string]string{queueLabel: "team"}
	j.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	m.createJob(t, ns, j)
	eventually(t, "the plain Job to run", func(ctx context.Context) error {
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

func testKueueMaster(t *testing.T, m *manager, ns string) {
	h := m.follows(t, ns)
	m.queue(t, ns, 3)
	r := m.trains(t, ns, queued("train", masterAndWorkers()...)...)
	before := r.alive()
	at := h.times("train-master") + h.times("train-worker")
	r.falls(r.pod("worker-0"), 1)
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
	if n := h.times("train-master") + h.times("train-worker") - at; n != 2 {
		t.Errorf("the two Jobs were suspended %d times for one restart", n)
	}
	r.ends(r.pod("master-0"))
	r.reaches(gang.Succeeded, 1)
	r.gone("worker")
	m.workloadIs(t, ns, "train-master", "Finished", "True")
	// Kueue takes a Job that shrinks for another, and suspends it: it is complete all the same.
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "wait", "job/train-worker", "--for=condition=Complete", "--timeout=60s"); err != nil {
		t.Errorf("the workers' Job: %v", err)
	}
	m.uses(t, ns, 0)
}

func testKueueDeactivated(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.queue(t, ns, 2)
	r := m.trains(t, ns, queued("train", training(2))...)
	m.active(t, ns, false)
	r.reaches(gang.Suspended, 0)
	r.gone("worker")
	r.stays(2 * time.Second)
	m.active(t, ns, true)
	r.reaches(gang.Running, 0)
	r.stays(2 * time.Second)
}

// testKueueEvicted: what is taken from a gang while it is stopped for a restart is not taken back by Rollcall.
func testKueueEvicted(t *testing.T, m *manager, ns string) {
	h := m.follows(t, ns)
	m.queue(t, ns, 2)
	r := m.trains(t, ns, queued("train", training(2))...)
	before, at := r.alive(), h.times("train")
	goes := r.stopping("worker-0", "worker-1")
	m.active(t, ns, false)
	m.workloadIs(t, ns, "train", "Evicted", "True")
	goes()
	r.reaches(gang.Suspended, 1)
	r.gone("worker")
	r.stays(2 * time.Second)
	m.uses(t, ns, 0)
	m.active(t, ns, true)
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	if n := h.times("train") - at; n != 1 {
		t.Errorf("the Job was suspended %d times", n)
	}
	r.stays(2 * time.Second)
}

// testKueueKilled: a manager that is killed while it restarts a gang cannot be called when Kueue lets the gang go.
func testKueueKilled(t *testing.T, m *manager, ns string) {
	m.follows(t, ns)
	m.queue(t, ns, 2)
	r := m.trains(t, ns, queued("train", training(2))...)
	before := r.alive()
	goes := r.stopping("worker-0", "worker-1")
	if err := m.Kill(); err != nil {
		t.Fatal(err)
	}
	// Kueue looks at the Job when something of it moves.
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(t.Context(), "train", types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"1"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Kueue to let it go", func(context.Context) error {
		if ptr.Deref(r.get("train").Spec.Suspend, false) {
			return errors.New("still suspended")
		}
		return nil
	})
	goes()
	m.Start(t)
	s := r.reaches(gang.Running, 1)
	if s.Attempt != 1 {
		t.Errorf("attempt %d", s.Attempt)
	}
	for name, p := range r.alive() {
		if p.UID == before[name].UID {
			t.Errorf("%s was not started anew", name)
		}
	}
	r.stays(2 * time.Second)
}

// testKueueAfter: Kueue's webhooks may as well come after Rollcall's, which are called in the order of their names.
func testKueueAfter(t *testing.T, m *manager, ns string) {
	const name = "kueue-mutating-webhook-configuration"
	hooks := m.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := hooks.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "z-" + name}, Webhooks: c.Webhooks}
	if _, err := hooks.Create(t.Context(), last, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the API server hears of it
	testKueueAdmitted(t, m, ns)
}

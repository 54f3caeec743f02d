package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/kueue"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// queuedGangs is a cluster in which Kueue admits gangs of several workloads as one.
type queuedGangs struct {
	*manager
	workloads dynamic.NamespaceableResourceInterface
}

// startQueuedGangs starts a cluster with Kueue, whose configuration has further lines.
func startQueuedGangs(t *testing.T, lines ...string) *queuedGangs {
	t.Helper()
	c := startCluster(t, withoutPodGC)
	if err := c.StartKueue(t.Context(), lines...); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	k := &queuedGangs{
		&manager{installation.NewWithChart(t, c, []string{"--set", "permissions.createKueueWorkloads=true"})},
		client.Resource(kueue.Version.WithResource(kueue.Resource)),
	}
	for flavor, taint := range map[string]string{"a100": "gpu", "h100": "new-gpu"} {
		k.applyManifest(t, "", fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, `+
			`metadata: {name: %[1]s}, spec: {nodeLabels: {example.com/gpu: %[1]s}, `+
			`tolerations: [{key: %[2]s, operator: Exists}]}}`, flavor, taint))
	}
	for i, p := range []string{"low", "high"} {
		k.applyManifest(t, "", fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, `+
			`metadata: {name: %s}, value: %d}`, p, (i+1)*100))
	}
	k.waitUntilDiscovered(t)
	return k
}

// TestKueueGangs runs gangs of several workloads, each of which is one Workload of Kueue.
func TestKueueGangs(t *testing.T) {
	k := startQueuedGangs(t)
	cases := map[string]func(*testing.T, *manager, string){}
	for name, test := range map[string]func(*testing.T, *queuedGangs, string){
		"AdmittedAsOne": testQueuedAdmittedAsOne,
		"Restart":       testQueuedRestart,
		"RandomOrders":  testQueuedRandomOrders,
		"Preempted":     testQueuedPreempted,
		"EvictedDuring": testQueuedEvictedDuringRestart,
		"StatefulSet":   testQueuedStatefulSet,
		"Deleted":       testQueuedDeleted,
		"Resized":       testQueuedRecreatedWithOtherSize,
		"OtherFlavor":   testQueuedOnOtherFlavor,
		"Unsupported":   testQueuedUnsupportedAdmission,
		"NameTaken":     testQueuedNameTaken,
		"Attack":        testAttackQueueWorkloads,
		"AttackNodes":   testAttackQueuedNodes,
	} {
		cases[name] = func(t *testing.T, m *manager, ns string) { test(t, &queuedGangs{m, k.workloads}, ns) }
	}
	k.runParallel(t, cases)
	t.Run("ManagerKilled", func(t *testing.T) { testQueuedManagerKilled(t, k, k.createNamespace(t)) })
}

// waitUntilDiscovered waits until admission knows that the API server serves Workloads.
func (k *queuedGangs) waitUntilDiscovered(t *testing.T) {
	t.Helper()
	ns, w := k.createNamespace(t), k.newGang("probe")[0]
	wait.For(t, "the discovery of Kueue", func(ctx context.Context) error {
		_, err := k.Client.BatchV1().Jobs(ns).Create(ctx, w.Job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// newGang returns the Jobs of a gang with 4 parameter servers and 4 workers, which request 8 GPUs.
func (k *queuedGangs) newGang(name string, annotations ...string) []gang.Workload {
	annotations = append(annotations, gang.AnnotationQueue, "team", gang.AnnotationGPUs, "1")
	var out []gang.Workload
	for _, role := range []string{"ps", "worker"} {
		w := newMemberJob(role, 4, "ps=4,worker=4", annotations...)
		w.Job.Name = name + "-" + role
		w.Job.Labels[gang.LabelFramework] = "tensorflow"
		out = append(out, w)
	}
	return out
}

// getWorkload returns the Workload of a gang; nil if there is none.
func (k *queuedGangs) getWorkload(t *testing.T, ns, name string) *unstructured.Unstructured {
	t.Helper()
	w, err := k.workloads.Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// waitForStatus waits until the Workload of a gang has a status.
func (k *queuedGangs) waitForStatus(t *testing.T, ns, name, want string, is func(kueue.Status) bool) {
	t.Helper()
	wait.For(t, "the Workload "+name+" to be "+want, func(context.Context) error {
		w := k.getWorkload(t, ns, name)
		s, err := kueue.Read(w)
		if err == nil && (w == nil || !is(s)) {
			err = fmt.Errorf("the status is %+v", s)
		}
		return err
	})
}

func testQueuedAdmittedAsOne(t *testing.T, k *queuedGangs, ns string) {
	k.recordJobHistory(t, ns)
	k.runFakeKubelet(t, ns, nil)
	workloads := k.newGang("train")
	for _, w := range workloads { // as a user writes it who does not know the annotation
		delete(w.Job.Annotations, gang.AnnotationQueue)
		w.Job.Labels[queueLabel] = "team"
	}
	r := k.createGang(t, ns, workloads[0])
	if j := r.getJob("train-ps"); !ptr.Deref(j.Spec.Suspend, false) || j.Labels[queueLabel] != "" ||
		j.Annotations[gang.AnnotationQueue] != "team" {
		t.Errorf("admission left suspend %v, labels %v, annotations %v", j.Spec.Suspend, j.Labels, j.Annotations)
	}
	r.jobs = append(r.jobs, k.createJob(t, ns, workloads[1].Job).Name)
	r.waitForPhase(lifecycle.Suspended, 0)
	k.createQueue(t, ns, 8)
	r.waitForPhase(lifecycle.Running, 0)
	pods := r.listActivePods()
	for name, p := range pods {
		if p.Spec.NodeSelector["example.com/gpu"] != "a100" || !slices.ContainsFunc(p.Spec.Tolerations, toleratesGPU) {
			t.Errorf("%s has node selector %v and tolerations %v", name, p.Spec.NodeSelector, p.Spec.Tolerations)
		}
	}
	if len(pods) != 8 {
		t.Errorf("%d pods", len(pods))
	}
	k.waitForGPUsInUse(t, ns, 8)
	all, err := k.workloads.Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 || len(all.Items[0].GetOwnerReferences()) != 2 {
		t.Errorf("Workloads: %v, %v", all, err)
	}
	k.waitForStatus(t, ns, "train", "ready", func(s kueue.Status) bool { return s.ReportsReady })
	next := k.createGang(t, ns, k.newGang("next")...)
	next.waitForPhase(lifecycle.Suspended, 0)
	k.waitForReason(next, "next-ps", gang.ReasonWaitingForQueue, "insufficient")
	for name, p := range r.listActivePods() {
		if strings.HasPrefix(name, "worker") {
			r.succeedPod(p)
		}
	}
	r.waitForPhase(lifecycle.Succeeded, 0)
	k.waitForStatus(t, ns, "train", "finished", func(s kueue.Status) bool { return s.Finished })
	next.waitForPhase(lifecycle.Running, 0)
}

func toleratesGPU(t corev1.Toleration) bool { return t.Key == "gpu" }

// testQueuedRestart checks that a restart keeps the quota, although another gang waits for it.
func testQueuedRestart(t *testing.T, k *queuedGangs, ns string) {
	h := k.recordJobHistory(t, ns)
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	next := k.createGang(t, ns, k.newGang("next")...)
	next.waitForPhase(lifecycle.Suspended, 0)
	uid, before, at := k.getWorkload(t, ns, "train").GetUID(), r.listActivePods(), h.countSuspends("train-ps")
	for i := range 2 {
		r.failContainer(r.getActivePod("worker-1"), 3)
		r.waitForPhase(lifecycle.Running, int32(i+1))
	}
	r.checkPodsReplaced(before, "2")
	if w := k.getWorkload(t, ns, "train"); w == nil || w.GetUID() != uid {
		t.Error("the restart recreated the Workload")
	}
	k.waitForStatus(t, ns, "train", "admitted", func(s kueue.Status) bool { return s.Admitted })
	if n := h.countSuspends("train-ps") - at; n != 2 {
		t.Errorf("the Job was suspended %d times for 2 restarts", n)
	}
	next.waitForPhase(lifecycle.Suspended, 0)
	next.checkPhaseStable(time.Second)
}

// testQueuedRandomOrders creates the workloads of two gangs in random orders. ROLLCALL_TEST_ORDERS is the number of
// orders. They are divided among quotas, because a gang mostly waits.
func testQueuedRandomOrders(t *testing.T, k *queuedGangs, _ string) {
	const ordersPerQuota = 50
	orders := 6
	if n, err := strconv.Atoi(os.Getenv("ROLLCALL_TEST_ORDERS")); err == nil {
		orders = n
	}
	for first := 0; first < orders; first += ordersPerQuota {
		t.Run(fmt.Sprintf("from %d of %d", first, orders), func(t *testing.T) {
			t.Parallel()
			k.testRandomOrders(t, k.createNamespace(t), min(ordersPerQuota, orders-first))
		})
	}
}

// testRandomOrders checks that one of two gangs always gets the whole quota, and that the other gang gets it when the
// first is deleted.
func (k *queuedGangs) testRandomOrders(t *testing.T, ns string, trials int) {
	k.runFakeKubelet(t, ns, nil)
	k.createQueue(t, ns, 8)
	for trial := range trials {
		gangs := k.createInRandomOrder(t, ns, k.newGang("a"), k.newGang("b"))
		var running *testGang
		wait.For(t, fmt.Sprintf("a gang of trial %d to run", trial), func(ctx context.Context) error {
			for _, g := range gangs {
				if g.checkPhase(lifecycle.Running, 0)(ctx) == nil {
					running = g
					return nil
				}
			}
			return errors.New("none runs")
		})
		waiting := gangs[0]
		if running == waiting {
			waiting = gangs[1]
		}
		if bound, all, err := waiting.countBound(t.Context()); err != nil || all > 0 {
			t.Fatalf("the waiting gang has %d pods, %d with a node: %v", all, bound, err)
		}
		running.deleteGang()
		waiting.waitForPhase(lifecycle.Running, 0)
		waiting.deleteGang()
		if done := trial + 1; done%10 == 0 {
			t.Logf("%d of %d orders ended right", done, trials)
		}
	}
	k.waitForGPUsInUse(t, ns, 0)
}

// testQueuedPreempted checks that a gang of a higher priority evicts a whole gang, which returns afterward.
func testQueuedPreempted(t *testing.T, k *queuedGangs, ns string) {
	k.recordJobHistory(t, ns)
	k.createQueue(t, ns, 8)
	low, high := k.newGang("low"), k.newGang("high")
	for i := range low {
		low[i].Job.Labels[kueue.LabelPriorityClass], high[i].Job.Labels[kueue.LabelPriorityClass] = "low", "high"
	}
	r := k.startGang(t, ns, low...)
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	before := r.listActivePods()
	first := k.createGang(t, ns, high...)
	r.waitForPhase(lifecycle.Suspended, 1)
	first.waitForPhase(lifecycle.Running, 0)
	r.waitForPodsGone("ps")
	r.waitForPodsGone("worker")
	r.checkPhaseStable(time.Second)
	first.deleteGang()
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "2")
	k.waitForGPUsInUse(t, ns, 8)
}

// testQueuedEvictedDuringRestart checks that a gang that is evicted during a restart waits for its queue.
func testQueuedEvictedDuringRestart(t *testing.T, k *queuedGangs, ns string) {
	k.recordJobHistory(t, ns)
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	before := r.listActivePods()
	terminate := r.beginRestart("worker-0", "worker-1")
	k.setWorkloadActive(t, ns, false)
	k.waitForStatus(t, ns, "train", "evicted", func(s kueue.Status) bool { return !s.Admitted })
	terminate()
	r.waitForPhase(lifecycle.Suspended, 1)
	k.waitForStatus(t, ns, "train", "released", func(s kueue.Status) bool { return !s.MustRelease && !s.Admitted })
	r.checkPhaseStable(time.Second)
	k.waitForGPUsInUse(t, ns, 0)
	k.setWorkloadActive(t, ns, true)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
}

// newQueuedLauncherAndWorkers returns a Job and a StatefulSet with 2 workers, which request 3 GPUs.
func newQueuedLauncherAndWorkers() []gang.Workload {
	workloads := newLauncherAndWorkers(2)
	for _, w := range workloads {
		if w.Meta().Annotations == nil {
			w.Meta().Annotations = map[string]string{}
		}
		w.Meta().Annotations[gang.AnnotationQueue], w.Meta().Annotations[gang.AnnotationGPUs] = "team", "1"
	}
	return workloads
}

// testQueuedStatefulSet checks a gang of a Job and a StatefulSet.
func testQueuedStatefulSet(t *testing.T, k *queuedGangs, ns string) {
	k.runFakeKubelet(t, ns, nil)
	r := k.createGang(t, ns, newQueuedLauncherAndWorkers()...)
	r.waitForPhase(lifecycle.Suspended, 0)
	r.waitForPodsGone("worker")
	k.createQueue(t, ns, 3)
	r.waitForPhase(lifecycle.Running, 0)
	k.waitForGPUsInUse(t, ns, 3)
	for name, p := range r.listActivePods() {
		if p.Spec.NodeSelector["example.com/gpu"] != "a100" {
			t.Errorf("%s has the node selector %v", name, p.Spec.NodeSelector)
		}
	}
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	k.setWorkloadActive(t, ns, false)
	r.waitForPhase(lifecycle.Suspended, 1)
	r.waitForPodsGone("worker")
	k.waitForGPUsInUse(t, ns, 0)
	k.setWorkloadActive(t, ns, true)
	r.waitForPhase(lifecycle.Running, 1)
	k.waitForGPUsInUse(t, ns, 3)
}

// testQueuedDeleted checks that a deleted gang releases its quota, also while it waits.
func testQueuedDeleted(t *testing.T, k *queuedGangs, ns string) {
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	next := k.createGang(t, ns, k.newGang("next")...)
	next.waitForPhase(lifecycle.Suspended, 0)
	next.deleteGang()
	r.deleteGang()
	k.waitForGPUsInUse(t, ns, 0)
	wait.For(t, "the Workloads to be deleted", func(ctx context.Context) error {
		all, err := k.workloads.Namespace(ns).List(ctx, metav1.ListOptions{})
		if err == nil && len(all.Items) > 0 {
			err = fmt.Errorf("%d exist", len(all.Items))
		}
		return err
	})
}

// testQueuedRecreatedWithOtherSize checks that a gang that is recreated at once with another size does not run on the
// quota of the deleted gang.
func testQueuedRecreatedWithOtherSize(t *testing.T, k *queuedGangs, ns string) {
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	r.deleteGang()
	var smaller []gang.Workload
	for _, w := range k.newGang("train") {
		w.Job.Annotations[gang.AnnotationRoles] = "ps=1,worker=1"
		w.Job.Spec.Parallelism, w.Job.Spec.Completions = ptr.To[int32](1), ptr.To[int32](1)
		smaller = append(smaller, w)
	}
	again := k.createGang(t, ns, smaller...)
	again.waitForPhase(lifecycle.Running, 0)
	k.waitForGPUsInUse(t, ns, 2)
}

// testQueuedManagerKilled checks that a gang keeps its Workload while Rollcall does not run, and that Rollcall follows
// an eviction that it did not observe.
func testQueuedManagerKilled(t *testing.T, k *queuedGangs, ns string) {
	k.recordJobHistory(t, ns)
	k.createQueue(t, ns, 8)
	r := k.startGang(t, ns, k.newGang("train")...)
	uid, before := k.getWorkload(t, ns, "train").GetUID(), r.listActivePods()
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	k.Start(t)
	r.checkPhaseStable(2 * time.Second)
	for name, p := range r.listActivePods() {
		if p.UID != before[name].UID {
			t.Errorf("%s was replaced", name)
		}
	}
	if w := k.getWorkload(t, ns, "train"); w == nil || w.GetUID() != uid {
		t.Error("the Workload was recreated")
	}
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	k.setWorkloadActive(t, ns, false)
	k.Start(t)
	r.waitForPhase(lifecycle.Suspended, 0)
	r.waitForPodsGone("worker")
	k.waitForStatus(t, ns, "train", "released", func(s kueue.Status) bool { return !s.MustRelease && !s.Admitted })
}

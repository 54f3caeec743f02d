package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/scheduling"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// The simulated nodes have 8 GPUs each, and a rank requests 3. Three nodes have room for 6 ranks, which is one and a
// half of the gangs of 4 ranks.
const (
	schedulingNodes = 3
	gpusPerRank     = "3"
	placedRanks     = 4
)

// TestNativeScheduling places gangs by the PodGroups of Kubernetes.
func TestNativeScheduling(t *testing.T) {
	c := startCluster(t, cluster.Options{
		Nodes: cluster.Kwok, KwokNodes: schedulingNodes, Release: cluster.Latest,
		FeatureGates:   map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true},
		APIServerFlags: []string{"--runtime-config=scheduling.k8s.io/v1beta1=true"},
	})
	s := newPlacement(t, c, gang.SchedulerNative)
	s.runCases(t)
	s.runInOrder(t, map[string]func(*testing.T, *placement){
		"Preempted":         testPlacedPreempted,
		"Topology":          testPlacedTopology,
		"ScheduleTimeout":   testScheduleTimeout,
		"UnservedScheduler": testUnservedScheduler,
		"ForeignPodGroup":   testForeignPodGroup,
		"AttackPodGroups":   testAttackPodGroups,
	})
}

// TestCoscheduling places gangs by the PodGroups of scheduler-plugins.
func TestCoscheduling(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: schedulingNodes})
	if err := c.StartCoscheduling(t.Context()); err != nil {
		t.Fatal(err)
	}
	newPlacement(t, c, gang.SchedulerCoscheduling,
		"--set", "scheduling.coschedulingName="+cluster.CoschedulingSchedulerName).runCases(t)
}

// TestVolcano places gangs by the PodGroups of Volcano.
func TestVolcano(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: schedulingNodes})
	if err := c.StartVolcano(t.Context()); err != nil {
		t.Fatal(err)
	}
	newPlacement(t, c, gang.SchedulerVolcano).runCases(t)
}

// TestKAI places gangs by the PodGroups of KAI.
func TestKAI(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: schedulingNodes})
	if err := c.StartKAI(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newPlacement(t, c, gang.SchedulerKAI)
	s.createKAITopology(t, rackLabel, corev1.LabelHostname)
	s.runCases(t)
	s.runInOrder(t, map[string]func(*testing.T, *placement){
		"Preempted":       testPlacedPreempted,
		"Topology":        testPlacedTopology,
		"EqualNames":      testPlacedEqualNames,
		"AttackPodGroups": testAttackPodGroups,
	})
}

// placement is a cluster with a scheduler that places gangs as one.
type placement struct {
	*manager
	scheduler gang.Scheduler
	groups    dynamic.NamespaceableResourceInterface
}

func newPlacement(t *testing.T, c *cluster.Cluster, scheduler gang.Scheduler, chart ...string) *placement {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{installation.NewWithChart(t, c, append(chart, "--set", "permissions.createPodGroups=true"))}
	version := scheduling.Find(scheduler).Versions()[0]
	return &placement{m, scheduler, client.Resource(version.WithResource(scheduling.Resource))}
}

// runCases runs the cases that hold for every scheduler.
func (s *placement) runCases(t *testing.T) {
	t.Helper()
	s.runInOrder(t, map[string]func(*testing.T, *placement){
		"PlacedAsOne":   testPlacedAsOne,
		"Writes":        testPlacedWrites,
		"Restart":       testPlacedRestart,
		"Suspended":     testPlacedSuspended,
		"RankCompleted": testPlacedRankCompleted,
		"RandomOrders":  testPlacedRandomOrders,
	})
}

// runInOrder runs cases one after the other, because they share the nodes.
func (s *placement) runInOrder(t *testing.T, cases map[string]func(*testing.T, *placement)) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// newWorkloads returns a gang of two Jobs.
func (s *placement) newWorkloads(name string, annotations ...string) []gang.Workload {
	annotations = append(annotations, gang.AnnotationScheduler, string(s.scheduler), gang.AnnotationGPUs, gpusPerRank,
		gang.AnnotationKAITopology, kaiTopology)
	var out []gang.Workload
	for role, ranks := range map[string]int32{"master": 1, "worker": placedRanks - 1} {
		w := newMemberJob(role, ranks, fmt.Sprintf("master=1,worker=%d", placedRanks-1), annotations...)
		w.Job.Name = strings.Replace(w.Job.Name, "train", name, 1)
		if s.scheduler == gang.SchedulerYuniKorn {
			w.Job.Spec.Template.Annotations = map[string]string{annotationTaskGroups: taskGroups}
		}
		out = append(out, w)
	}
	return out
}

// countBound returns the number of pods of a gang that have a node and have not finished.
func (r *testGang) countBound(ctx context.Context) (bound, all int, err error) {
	for _, job := range r.jobs {
		pods, err := r.Client.CoreV1().Pods(r.ns).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + job})
		if err != nil {
			return 0, 0, err
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			all++
			if p.Spec.NodeName != "" {
				bound++
			}
		}
	}
	return bound, all, nil
}

// waitForBound waits until a gang has the given numbers of pods.
func (r *testGang) waitForBound(wantBound, wantAll int) {
	r.t.Helper()
	wait.For(r.t, fmt.Sprintf("%d of %d pods of %v to have a node", wantBound, wantAll, r.jobs),
		func(ctx context.Context) error {
			bound, all, err := r.countBound(ctx)
			if err == nil && (bound != wantBound || all != wantAll) {
				err = fmt.Errorf("%d of %d have a node", bound, all)
			}
			return err
		})
}

// checkUnbound checks that no pod of a waiting gang gets a node.
func (r *testGang) checkUnbound() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if bound, all, err := r.countBound(r.t.Context()); err != nil || bound > 0 {
			r.t.Fatalf("%d of %d pods of the waiting gang %v have a node: %v", bound, all, r.jobs, err)
		}
	}
}

// deleteGang deletes the Jobs and waits until their pods are gone.
func (r *testGang) deleteGang() {
	r.t.Helper()
	background := metav1.DeletePropagationBackground
	for _, job := range r.jobs {
		err := r.Client.BatchV1().Jobs(r.ns).Delete(r.t.Context(), job,
			metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.waitForBound(0, 0)
}

// podGroupName returns the name of the PodGroup of a gang.
func (s *placement) podGroupName(ns, name string) string {
	return gang.Gang{Namespace: ns, Name: name, Placement: gang.Placement{Scheduler: s.scheduler}}.OwnPodGroup()
}

// getPodGroup returns the PodGroup of a gang.
func (s *placement) getPodGroup(t *testing.T, ns, name string) *unstructured.Unstructured {
	t.Helper()
	var out *unstructured.Unstructured
	wait.For(t, "the PodGroup", func(ctx context.Context) (err error) {
		out, err = s.groups.Namespace(ns).Get(ctx, s.podGroupName(ns, name), metav1.GetOptions{})
		return err
	})
	return out
}

func testPlacedAsOne(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	first := s.createGang(t, ns, s.newWorkloads("first")...)
	first.waitForPhase(lifecycle.Running, 0)
	second := s.createGang(t, ns, s.newWorkloads("second")...)
	second.waitForBound(0, placedRanks)
	second.checkUnbound()
	if got := len(s.getPodGroup(t, ns, "second").GetOwnerReferences()); got != 2 {
		t.Errorf("the PodGroup has %d owners, want both Jobs", got)
	}
	first.deleteGang()
	wait.For(t, "the PodGroup to be deleted with its gang", func(ctx context.Context) error {
		if _, err := s.groups.Namespace(ns).Get(ctx, s.podGroupName(ns, "first"), metav1.GetOptions{}); err == nil {
			return errors.New("it exists")
		}
		return nil
	})
	second.waitForPhase(lifecycle.Running, 0)
	second.deleteGang()
}

func testPlacedRestart(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	r := s.createGang(t, ns, s.newWorkloads("train")...)
	r.waitForPhase(lifecycle.Running, 0)
	group, before := s.getPodGroup(t, ns, "train"), r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	after := s.getPodGroup(t, ns, "train")
	if diff := cmp.Diff(group.Object["spec"], after.Object["spec"]); diff != "" || after.GetUID() != group.GetUID() {
		t.Errorf("the restart changed or recreated the PodGroup (-want +got):\n%s", diff)
	}
	r.deleteGang()
}

// testPlacedWrites checks that a PodGroup costs at most two writes until the gang runs, and none for a restart.
func testPlacedWrites(t *testing.T, s *placement) {
	life := func(scheduler gang.Scheduler) (start, restart float64) {
		ns, workloads := s.createNamespace(t), s.newWorkloads("train")
		for _, w := range workloads {
			w.Job.Annotations[gang.AnnotationScheduler] = string(scheduler)
		}
		before := s.countWrites(t)
		r := s.createGang(t, ns, workloads...)
		r.waitForPhase(lifecycle.Running, 0)
		start = s.countWritesSince(t, before)
		before = s.countWrites(t)
		r.failContainer(r.getActivePod("worker-1"), 3)
		r.waitForPhase(lifecycle.Running, 1)
		restart = s.countWritesSince(t, before)
		r.deleteGang()
		return start, restart
	}
	start, restart := life(gang.SchedulerNone)
	placedStart, placedRestart := life(s.scheduler)
	t.Logf("%v writes until the gang ran, %v without a PodGroup; %v writes of a restart, %v without",
		placedStart, start, placedRestart, restart)
	if placedStart > start+2 || placedRestart > restart+1 { // a slow machine can separate the writes of two members
		t.Error("the PodGroup costs more writes")
	}
}

// testPlacedPreempted checks that a gang of a higher priority gets all nodes of a gang, which starts again afterward.
func testPlacedPreempted(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	for name, value := range map[string]int32{"gang-low": 10, "gang-high": 20} { // KAI preempts gangs below 100
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		_, err := s.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(name, class string) *testGang {
		workloads := s.newWorkloads(name)
		for _, w := range workloads {
			w.Job.Spec.Template.Spec.PriorityClassName = class
		}
		return s.createGang(t, ns, workloads...)
	}
	low := create("low", "gang-low")
	low.waitForPhase(lifecycle.Running, 0)
	high := create("high", "gang-high")
	high.waitForPhase(lifecycle.Running, 0)
	low.waitForBound(0, placedRanks)
	low.checkUnbound()
	high.deleteGang()
	status := low.waitForPhase(lifecycle.Running, 1)
	if status.Disruptions != 1 || status.Restarts != 0 || status.FirstFailure == nil || !status.FirstFailure.Disrupted {
		t.Errorf("the status is %+v", status)
	}
	t.Logf("the first failure is %s, after %d disruptions", status.FirstFailure, status.Disruptions)
	low.deleteGang()
}

// testPlacedTopology checks that all ranks of a gang run in one rack of two nodes, and that a gang waits that must
// run on one node, on which only half of it fits. Without the topology, the ranks spread over all nodes.
func testPlacedTopology(t *testing.T, s *placement) {
	racksOf := s.labelRacks(t, 2)
	ns := s.createNamespace(t)
	countRanks := func(r *testGang) map[string]int {
		racks := map[string]int{}
		for _, pod := range r.listActivePods() {
			racks[racksOf[pod.Spec.NodeName]]++
		}
		return racks
	}
	spread := s.createGang(t, ns, s.newWorkloads("spread")...)
	spread.waitForPhase(lifecycle.Running, 0)
	t.Logf("ranks in each rack without a topology: %v", countRanks(spread))
	spread.deleteGang()
	first := s.createGang(t, ns, s.newWorkloads("first", gang.AnnotationTopology, rackLabel)...)
	first.waitForPhase(lifecycle.Running, 0)
	if diff := cmp.Diff(map[string]int{"r0": placedRanks}, countRanks(first)); diff != "" {
		t.Errorf("the ranks are not in one rack (-want +got):\n%s", diff)
	}
	first.deleteGang()
	waiting := s.createGang(t, ns, s.newWorkloads("waiting", gang.AnnotationTopology, corev1.LabelHostname)...)
	waiting.waitForBound(0, placedRanks)
	waiting.checkUnbound()
	waiting.deleteGang()
}

// kaiTopology is the name of the Topology of the tests.
const kaiTopology = "network"

// createKAITopology creates a Topology of KAI with labels of nodes.
func (s *placement) createKAITopology(t *testing.T, labels ...string) {
	t.Helper()
	var levels []string
	for _, label := range labels {
		levels = append(levels, "{nodeLabel: "+label+"}")
	}
	s.applyManifest(t, "", fmt.Sprintf(
		`{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: %s}, spec: {levels: [%s]}}`,
		kaiTopology, strings.Join(levels, ", ")))
}

// testPlacedEqualNames checks that a gang does not take part in a gang of another namespace with the same name.
func testPlacedEqualNames(t *testing.T, s *placement) {
	first := s.createGang(t, s.createNamespace(t), s.newWorkloads("train")...)
	first.waitForPhase(lifecycle.Running, 0)
	second := s.createGang(t, s.createNamespace(t), s.newWorkloads("train")...)
	second.waitForBound(0, placedRanks)
	second.checkUnbound()
	first.deleteGang()
	second.waitForPhase(lifecycle.Running, 0)
	second.deleteGang()
}

// testScheduleTimeout checks that two gangs without a PodGroup that hold the nodes of each other both run, because one
// of them gives its nodes back.
func testScheduleTimeout(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	var masters []gang.Workload
	for _, name := range []string{"first", "second"} {
		for _, w := range s.newWorkloads(name, gang.AnnotationScheduleTimeout, "5s") {
			w.Job.Annotations[gang.AnnotationScheduler] = string(gang.SchedulerNone)
			if w.Job.Name == name+"-master" {
				masters = append(masters, w)
				continue
			}
			s.createGang(t, ns, w).waitForBound(placedRanks-1, placedRanks-1)
		}
	}
	r := s.createGang(t, ns, masters...) // no node is left for them
	var phases []lifecycle.Phase
	wait.For(t, "one gang to run", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		phases = nil
		for _, w := range all {
			phases = append(phases, lifecycle.ReadPhase(w))
		}
		if !slices.Contains(phases, lifecycle.Running) {
			return fmt.Errorf("the phases are %v", phases)
		}
		return nil
	})
	ended := r.jobs[slices.Index(phases, lifecycle.Running)]
	waiting := r.jobs[1-slices.Index(phases, lifecycle.Running)]
	name := strings.TrimSuffix(ended, "-master")
	(&testGang{manager: s.manager, t: t, ns: ns, jobs: []string{ended, name + "-worker"}}).deleteGang()
	r.jobs = []string{waiting, strings.TrimSuffix(waiting, "-master") + "-worker"}
	var status lifecycle.Status
	wait.For(t, "the other gang to run", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		status = lifecycle.ReadStatus(all[0])
		if status.Phase != lifecycle.Running || status.Restarts > 0 || status.Disruptions == 0 {
			return fmt.Errorf("the status is %+v", status)
		}
		return nil
	})
	t.Logf("the gang waited %d times: %s", status.Disruptions, status.FirstFailure)
	if status.FirstFailure == nil || status.FirstFailure.Reason != failure.ReasonScheduleTimeout {
		t.Errorf("the first failure is %v", status.FirstFailure)
	}
	r.deleteGang()
}

// testPlacedSuspended checks that a suspended gang gives its nodes to a gang that waits, and waits after it was
// resumed.
func testPlacedSuspended(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	first := s.createGang(t, ns, s.newWorkloads("first")...)
	first.waitForPhase(lifecycle.Running, 0)
	second := s.createGang(t, ns, s.newWorkloads("second")...)
	second.waitForBound(0, placedRanks)
	for _, job := range first.jobs {
		first.patchJob(job, `{"spec":{"suspend":true}}`)
	}
	second.waitForPhase(lifecycle.Running, 0)
	if scheduling.HasPodGroups(s.scheduler) {
		_, err := s.groups.Namespace(ns).Get(t.Context(), s.podGroupName(ns, "first"), metav1.GetOptions{})
		if isKept := err == nil; isKept == scheduling.Find(s.scheduler).ReservesWithoutPods() {
			t.Errorf("reading the PodGroup of the suspended gang: %v", err)
		}
	}
	for _, job := range first.jobs {
		first.patchJob(job, `{"spec":{"suspend":false}}`)
	}
	first.waitForBound(0, placedRanks)
	first.checkUnbound()
	second.deleteGang()
	first.waitForBound(placedRanks, placedRanks)
	first.deleteGang()
}

// testPlacedRankCompleted checks that a pod is replaced after another rank has completed. Kubernetes and
// scheduler-plugins do not count the pod of that rank (kubernetes/kubernetes#142330).
func testPlacedRankCompleted(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	r := s.createGang(t, ns, s.newWorkloads("train", gang.AnnotationRestartPolicy, "pod")...)
	r.waitForPhase(lifecycle.Running, 0)
	r.succeedPod(r.getActivePod("worker-0"))
	r.waitForBound(placedRanks-1, placedRanks-1)
	deleted := r.getActivePod("worker-1")
	if err := s.Client.CoreV1().Pods(ns).Delete(t.Context(), deleted.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the pod to be replaced", func(context.Context) error {
		if p := r.listActivePods()["worker-1"]; p.Name == "" || p.UID == deleted.UID || p.Spec.NodeName == "" {
			return fmt.Errorf("the pod %q has the node %q", p.Name, p.Spec.NodeName)
		}
		return nil
	})
	r.deleteGang()
}

// testPlacedRandomOrders creates the Jobs of two gangs in random orders. One gang always gets all of its nodes, and
// the other one none until the first is deleted.
func testPlacedRandomOrders(t *testing.T, s *placement) {
	trials := 12
	if s.scheduler == gang.SchedulerCoscheduling || s.scheduler == gang.SchedulerYuniKorn {
		trials = 4 // a waiting gang needs up to 30 seconds, or some seconds for its placeholders
	}
	ns := s.createNamespace(t)
	for i := range trials { // YuniKorn needs new names
		gangs := s.createInRandomOrder(t, ns, s.newWorkloads(fmt.Sprint("a", i)), s.newWorkloads(fmt.Sprint("b", i)))
		var placed, waiting *testGang
		wait.For(t, "one gang to have all of its nodes", func(ctx context.Context) error {
			for i, g := range gangs {
				bound, _, err := g.countBound(ctx)
				if err != nil {
					return err
				}
				if bound == placedRanks {
					placed, waiting = g, gangs[1-i]
					return nil
				}
			}
			return errors.New("both wait")
		})
		waiting.waitForBound(0, placedRanks)
		placed.deleteGang()
		waiting.waitForBound(placedRanks, placedRanks)
		waiting.deleteGang()
	}
}

// testUnservedScheduler checks that a scheduler is denied whose PodGroups the API server does not serve.
func testUnservedScheduler(t *testing.T, s *placement) {
	w := newTrainingWorkload(2, gang.AnnotationScheduler, string(gang.SchedulerVolcano))
	_, err := s.Client.BatchV1().Jobs(s.createNamespace(t)).Create(t.Context(), w.Job, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "does not serve podgroups.scheduling.volcano.sh") {
		t.Errorf("the error is %v", err)
	}
}

// testAttackPodGroups checks that the credentials of the controller permit PodGroups of gangs only.
func testAttackPodGroups(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	config := rest.CopyConfig(s.Cluster.Config())
	config.Impersonate.UserName = installation.ControllerUser
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	groups := client.Resource(scheduling.Find(s.scheduler).Versions()[0].WithResource(scheduling.Resource)).Namespace(ns)
	build := func(name string, labels map[string]string) *unstructured.Unstructured {
		group := scheduling.BuildPodGroup(scheduling.Find(s.scheduler), scheduling.Find(s.scheduler).Versions()[0],
			scheduling.Group{Namespace: ns, Name: name, MinCount: 1})
		group.SetLabels(labels)
		return group
	}
	ofGang := map[string]string{gang.LabelGang: "train", "app.kubernetes.io/managed-by": "rollcall"}
	for name, group := range map[string]*unstructured.Unstructured{
		"without labels": build("plain", nil), "without owners": build("unowned", ofGang),
	} {
		if _, err := groups.Create(t.Context(), group, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("creating a PodGroup %s: %v, want a denial of the policy", name, err)
		}
	}
	other := build("other", nil)
	if _, err := s.groups.Namespace(ns).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = groups.Delete(t.Context(), "other", metav1.DeleteOptions{})
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("deleting a PodGroup of somebody else: %v, want a denial of the policy", err)
	}
}

// testForeignPodGroup checks that Rollcall reports and does not change a PodGroup of somebody else.
func testForeignPodGroup(t *testing.T, s *placement) {
	ns := s.createNamespace(t)
	version := schema.GroupVersion{Group: "scheduling.k8s.io", Version: "v1beta1"}
	foreign := scheduling.BuildPodGroup(scheduling.Find(s.scheduler), version,
		scheduling.Group{Namespace: ns, Name: "train", MinCount: 9})
	foreign, err := s.groups.Namespace(ns).Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := s.createGang(t, ns, s.newWorkloads("train")...)
	wait.For(t, "the report", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		if status := lifecycle.ReadStatus(all[0]); status.Reason != gang.ReasonPodGroupMissing {
			return fmt.Errorf("the status is %+v", status)
		}
		return nil
	})
	s.waitForEvent(t, ns, gang.ReasonPodGroupMissing)
	if after := s.getPodGroup(t, ns, "train"); after.GetGeneration() != foreign.GetGeneration() ||
		len(after.GetOwnerReferences()) > 0 || len(after.GetLabels()) > 0 {
		t.Errorf("the PodGroup was changed to %v", after)
	}
	r.deleteGang()
}

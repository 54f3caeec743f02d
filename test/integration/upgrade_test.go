package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/builds"
	"rollcall.training/test/installation"
)

// TestUpgrade replaces the previous build by this one, and this one by the previous one, while gangs of each
// phase exist. Each build must continue what the other one wrote. TestUpgrade in test/e2e repeats this with
// helm and pods.
func TestUpgrade(t *testing.T) {
	if os.Getenv("ROLLCALL_TEST_UPGRADE") == "" {
		t.Skip("run make upgrade to include this test, which takes minutes and builds an earlier manager")
	}
	previous, this := builds.Require(t, builds.Previous), filepath.Join("..", "..")
	this, err := filepath.Abs(this)
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, withoutPodGC) // which would end the terminating gang after 40 s
	m := &manager{installation.NewFromSource(t, c, previous)}
	before := m.startGangsForUpgrade(t)
	m.upgrade(t, before, this)
	before.finish(t)
	before.checkApply(t)

	after := m.startGangsForUpgrade(t)
	m.upgrade(t, after, previous) // the rollback
	after.finish(t)
	after.checkApply(t)
	before.checkUnchanged(t)
}

// upgrade replaces the build. Between the chart and the processes, the old processes run with the objects of
// the new chart, as during a rollout: a gang restarts then, too.
func (m *manager) upgrade(t *testing.T, gangs *upgradedGangs, source string) {
	t.Helper()
	m.UpgradeChart(t, source)
	mixed := gangs.rollout
	mixed.failContainer(mixed.getActivePod("worker-1"), 3)
	mixed.waitForPhase(lifecycle.Running, 1)
	gangs.beginRestarts(t)
	m.Stop(t)
	for _, r := range append(gangs.inBackoff, gangs.terminating) {
		if err := r.checkPhase(lifecycle.Restarting, r.readRestarts())(t.Context()); err != nil {
			t.Fatalf("a gang did not restart at the time of the upgrade: %v", err)
		}
	}
	m.UpgradeProcesses(t)
}

// upgradedGangs are gangs that exist while Rollcall is upgraded.
type upgradedGangs struct {
	// running are not disturbed by the upgrade.
	running []*testGang
	// inBackoff are in the back-off of their third restart, terminating in the middle of its first one, and
	// rollout restarts while old processes run with the new chart.
	inBackoff            []*testGang
	terminating, rollout *testGang
	// suspended and queued are not resumed. finished have succeeded or failed.
	suspended, queued, finished []*testGang

	terminate func()
	// members are the workloads of the gangs of which the upgrade must not change anything, and pods are the
	// UIDs of their pods.
	members map[string]observedMember
}

// observedMember is what an upgrade must not change.
type observedMember struct {
	Generation                                    int64
	Injected, Status, Phase, Size, UpdateRevision string
	Pods                                          map[string]types.UID
}

const restartsBeforeBackoff = 2

// startGangsForUpgrade starts gangs of all kinds, each in a namespace of its own.
func (m *manager) startGangsForUpgrade(t *testing.T) *upgradedGangs {
	t.Helper()
	start := func(workloads ...gang.Workload) *testGang { return m.startGang(t, m.createNamespace(t), workloads...) }
	create := func(workload gang.Workload) *testGang {
		ns := m.createNamespace(t)
		m.runFakeKubelet(t, ns, nil)
		return m.createGang(t, ns, workload)
	}
	newSet := func() gang.Workload { return gang.Workload{StatefulSet: newStatefulSet("train", 3)} }
	suspended, queued := newTrainingWorkload(2), newTrainingWorkload(2)
	suspended.Job.Spec.Suspend, queued.Job.Spec.Suspend = ptr.To(true), ptr.To(true)
	queued.Job.Labels[queueLabel] = "team"
	gangs := &upgradedGangs{
		running: []*testGang{
			start(newTrainingWorkload(3)), start(newSet()),
			start(newMasterAndWorkers()...), start(newLauncherAndWorkers(2)...),
		},
		inBackoff: []*testGang{
			start(newTrainingWorkload(2, gang.AnnotationMaxRestarts, "10")), start(newSet()),
		},
		terminating: start(newTrainingWorkload(2)),
		rollout:     start(newTrainingWorkload(2)),
		suspended:   []*testGang{create(suspended), start(newSet())},
		queued:      []*testGang{create(queued)},
		finished: []*testGang{
			start(newTrainingWorkload(2)), start(newTrainingWorkload(2, gang.AnnotationMaxRestarts, "0")),
		},
	}
	gangs.suspended[1].scale(0)
	for name := range gangs.finished[0].listActivePods() {
		gangs.finished[0].succeedPod(gangs.finished[0].getActivePod(name))
	}
	gangs.finished[1].failContainer(gangs.finished[1].getActivePod("worker-1"), 3)
	gangs.finished[0].waitForPhase(lifecycle.Succeeded, 0)
	gangs.finished[1].waitForPhase(lifecycle.Failed, 0)
	for _, r := range append(gangs.suspended, gangs.queued...) {
		r.waitForPhase(lifecycle.Suspended, 0)
	}
	for restart := range int32(restartsBeforeBackoff) {
		for _, r := range gangs.inBackoff {
			r.failContainer(r.getActivePod("worker-1"), 3)
		}
		for _, r := range gangs.inBackoff {
			r.waitForPhase(lifecycle.Running, restart+1)
		}
	}
	gangs.members = gangs.observe(t)
	return gangs
}

// beginRestarts makes gangs restart: one terminates until finish, the others are in a back-off of 20 s.
func (g *upgradedGangs) beginRestarts(t *testing.T) {
	t.Helper()
	g.terminate = g.terminating.beginRestart("worker-1", "worker-0")
	for _, r := range g.inBackoff {
		r.failContainer(r.getActivePod("worker-1"), 3)
	}
	for _, r := range g.inBackoff {
		r.waitForPhase(lifecycle.Restarting, restartsBeforeBackoff+1)
	}
}

// finish checks that the gangs continue with the new build: running, suspended and finished gangs are
// unchanged, restarts complete once, and suspended gangs can be resumed. Then a running gang restarts.
func (g *upgradedGangs) finish(t *testing.T) {
	t.Helper()
	g.terminate()
	g.terminating.waitForPhase(lifecycle.Running, 1)
	for _, r := range g.inBackoff {
		r.waitForPhase(lifecycle.Running, restartsBeforeBackoff+1)
	}
	for _, r := range append(g.inBackoff, g.terminating, g.rollout) {
		r.checkPhaseStable(500 * time.Millisecond)
	}
	g.checkUnchanged(t)
	for _, r := range append(g.suspended, g.queued...) {
		r.resume()
		r.waitForPhase(lifecycle.Running, 0)
	}
	for _, r := range g.running {
		r.checkRestartAfterUpgrade()
	}
	g.members = g.observe(t)
}

// checkRestartAfterUpgrade checks that all ranks restart once after one of them failed.
func (r *testGang) checkRestartAfterUpgrade() {
	r.t.Helper()
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(500 * time.Millisecond)
}

// resume resumes the members of a suspended gang as their user or a queue does.
func (r *testGang) resume() {
	r.t.Helper()
	for _, name := range r.jobs {
		r.patchJob(name, `{"spec":{"suspend":false}}`)
	}
	r.scale(3)
}

// scale scales the StatefulSets of the gang, as kubectl does.
func (r *testGang) scale(replicas int) {
	r.t.Helper()
	for _, name := range r.statefulSets {
		if _, err := r.Cluster.Kubectl(
			r.t.Context(), "-n", r.ns, "scale", "statefulset/"+name, fmt.Sprintf("--replicas=%d", replicas),
		); err != nil {
			r.t.Fatal(err)
		}
	}
}

// checkUnchanged checks that no pod was replaced, that no StatefulSet has a new revision, and that nothing was
// written to members of gangs to which nothing happened.
func (g *upgradedGangs) checkUnchanged(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(g.members, g.observe(t)); diff != "" {
		t.Errorf("gangs changed (-before +after):\n%s", diff)
	}
}

// checkApply checks that users can annotate running StatefulSets and Jobs without a rollout, and that the
// number of the revision stays.
func (g *upgradedGangs) checkApply(t *testing.T) {
	t.Helper()
	for _, r := range g.running {
		for _, name := range r.jobs {
			r.patchJob(name, `{"metadata":{"annotations":{"example.com/note":"upgraded"}}}`)
		}
		for _, name := range r.statefulSets {
			if _, err := r.Client.AppsV1().StatefulSets(r.ns).Patch(t.Context(), name, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"example.com/note":"upgraded"}}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		r.checkPhaseStable(500 * time.Millisecond)
	}
	g.checkUnchanged(t)
}

// observe returns the members of all gangs to which nothing happens, by namespace and name.
func (g *upgradedGangs) observe(t *testing.T) map[string]observedMember {
	t.Helper()
	out := map[string]observedMember{}
	groups := [][]*testGang{g.running, g.suspended, g.queued, g.finished}
	for _, group := range groups {
		for _, r := range group {
			all, err := r.getWorkloads(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pods := map[string]types.UID{}
			for name, p := range r.listActivePods() {
				if p.Status.Phase == corev1.PodRunning {
					pods[name] = p.UID
				}
			}
			for _, w := range all {
				out[r.ns+"/"+w.Meta().Name] = observeMember(w, pods)
			}
		}
	}
	return out
}

func observeMember(w gang.Workload, pods map[string]types.UID) observedMember {
	meta := w.Meta()
	out := observedMember{
		Generation: meta.Generation,
		Injected:   meta.Annotations[gang.AnnotationInjected],
		Status:     meta.Annotations[gang.AnnotationStatus],
		Phase:      meta.Labels[gang.LabelPhase],
		Size:       meta.Labels[gang.LabelSize],
		Pods:       pods,
	}
	if w.StatefulSet != nil {
		out.UpdateRevision = w.StatefulSet.Status.UpdateRevision
	}
	return out
}

// readRestarts returns the number of restarts of the gang.
func (r *testGang) readRestarts() int32 {
	r.t.Helper()
	all, err := r.getWorkloads(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	status := lifecycle.ReadStatus(all[0])
	return status.Restarts + status.Disruptions
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/builds"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// previousImage is the image of the manager of the previous build.
const previousImage = "rollcall.training/manager:previous"

// TestUpgrade upgrades a release of the previous build to this build and rolls it back, while gangs of each
// phase exist and a client creates Jobs all the time, with the timeouts that are the defaults of the chart.
func TestUpgrade(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	source := builds.Require(t, builds.Previous)
	s.installBuild(t, source, previousImage)
	installed := s.listInstalledObjects(t)
	gangs := s.startGangsBeforeUpgrade(t)
	calls := s.createNamespace(t)
	stop := s.callContinuously(t, calls)

	gangs.beginRestarts(t)
	start := time.Now()
	if err := installation.UpgradeChart(t.Context(), s.Cluster); err != nil {
		t.Fatal(err)
	}
	s.waitForOnlyImage(t, installation.ManagerImage)
	t.Logf("the upgrade took %.1f s", time.Since(start).Seconds())
	gangs.check(t)
	gangs.resume(t, gangs.suspended[0])

	gangs.beginRestarts(t)
	start = time.Now()
	if _, err := s.Helm(t.Context(), "rollback", installation.Release, "--namespace", installation.Namespace,
		"--wait", "--timeout", "3m"); err != nil {
		t.Fatal(err)
	}
	s.waitForOnlyImage(t, previousImage)
	t.Logf("the rollback took %.1f s", time.Since(start).Seconds())
	gangs.check(t)
	gangs.resume(t, gangs.suspended[1])
	stop()
	if diff := cmp.Diff(installed, s.listInstalledObjects(t)); diff != "" {
		t.Errorf("objects after the rollback (-before the upgrade +after the rollback):\n%s", diff)
	}
}

// installBuild replaces the release by one of another build, with default values. The end of the test
// installs this build again.
func (s *testCluster) installBuild(t *testing.T, source, image string) {
	t.Helper()
	if _, err := s.LoadImage(t.Context(), installation.NewManagerImageFromSource(source, image)); err != nil {
		t.Fatal(err)
	}
	s.uninstallChart(t)
	if err := installation.RunHelm(t.Context(), s.Cluster, source, image, "install"); err != nil {
		t.Fatal(err)
	}
}

// waitForOnlyImage waits until all pods of Rollcall have an image and are ready.
func (s *testCluster) waitForOnlyImage(t *testing.T, image string) {
	t.Helper()
	wait.For(t, "pods with the image "+image, func(ctx context.Context) error {
		pods, err := s.client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Spec.Containers[0].Image != image || !lifecycle.IsPodReady(&pod) {
				return fmt.Errorf("pod %s has the image %s and is %s", pod.Name, pod.Spec.Containers[0].Image, pod.Status.Phase)
			}
		}
		if len(pods.Items) == 0 {
			return errors.New("there are no pods")
		}
		return nil
	})
}

// generatedName matches objects that controllers of Kubernetes, Helm and leader election create.
var generatedName = regexp.MustCompile(
	`^(pod|event|event\.events\.k8s\.io|replicaset\.apps|endpointslice\.discovery\.k8s\.io|endpoints)/|` +
		`^secret/sh\.helm\.release|^lease`)

// listInstalledObjects lists the objects of the release and the cluster-scoped objects.
func (s *testCluster) listInstalledObjects(t *testing.T) []string {
	t.Helper()
	kinds, err := s.Kubectl(t.Context(), "api-resources", "--verbs=list", "--namespaced", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	inside, err := s.Kubectl(t.Context(), "--namespace", installation.Namespace,
		"get", strings.Join(strings.Fields(kinds), ","), "-o", "name", "--ignore-not-found")
	if err != nil {
		t.Fatal(err)
	}
	outside, err := s.listClusterScopedObjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(append(strings.Fields(inside), outside...), generatedName.MatchString)
	slices.Sort(out)
	return out
}

// upgradeGangs are gangs that exist while Rollcall is upgraded.
type upgradeGangs struct {
	*testCluster
	// running are not disturbed. Each of them has a namespace of its own.
	running []runningGang
	// inBackoff are a Job and a StatefulSet that are suspended in the back-off of a restart, and terminating is
	// a Job whose pods ignore SIGTERM.
	inBackoff   []*terminableGang
	terminating *terminableGang
	// suspended are a Job of a user and a Job of a queue. finished have succeeded and failed.
	suspended, finished []*terminableGang

	restarts, terminatingRestarts int32
}

// runningGang is a gang that must not notice the upgrade.
type runningGang struct {
	namespace string
	pods      map[string]types.UID
	revisions map[string]string
}

// ignoreTerminationProgram is a program that SIGKILL ends.
const ignoreTerminationProgram = "trap '' TERM\nwhile true; do sleep 1; done\n"

// terminationSeconds is the grace period of the pods that ignore SIGTERM: long enough to end while
// the pods of Rollcall are replaced.
const terminationSeconds = 30

// restartsBeforeUpgrade is the number of restarts before the upgrade, so that the next one has a back-off of
// 20 s.
const restartsBeforeUpgrade = 2

func (s *testCluster) startGangsBeforeUpgrade(t *testing.T) *upgradeGangs {
	t.Helper()
	g := &upgradeGangs{testCluster: s}
	running := []*terminableGang{
		s.createTerminableGangs(t, false, false)[0], s.createTerminableGangs(t, true, false)[0],
	}
	g.inBackoff = []*terminableGang{
		s.createTerminableGangs(t, false, false)[0], s.createTerminableGangs(t, true, false)[0],
	}
	pair := s.createNamespace(t)
	s.createProgram(t, pair, "train.sh", ignoreTerminationProgram)
	spec := s.newPodSpec("sh", "train.sh")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	roles := map[string]string{gang.AnnotationRoles: "master=1,worker=2"}
	s.createMemberJob(t, pair, "train", "master", 1, roles, spec)
	s.createMemberJob(t, pair, "train", "worker", 2, roles, spec)
	g.suspended = []*terminableGang{s.createSuspendedGang(t, ""), s.createSuspendedGang(t, "team")}
	g.finished = []*terminableGang{s.createFinishedGang(t, 0), s.createFinishedGang(t, 1)}

	namespace := s.createNamespace(t)
	s.createProgram(t, namespace, "train.sh", ignoreTerminationProgram)
	slow := s.newPodSpec("sh", "train.sh")
	slow.TerminationGracePeriodSeconds = ptr.To[int64](terminationSeconds)
	s.createJob(t, namespace, "train", drainedRanks, nil, slow)
	g.terminating = &terminableGang{testCluster: s, namespace: namespace, name: "train"}
	g.terminating.pods = g.terminating.waitForRunningRanks(t, 0)

	for _, r := range running {
		r.waitForRunningRanks(t, 0)
	}
	for _, r := range g.inBackoff {
		r.permitRestarts(t)
		r.waitForRunningRanks(t, 0)
	}
	for range restartsBeforeUpgrade {
		g.restarts++
		deleteSecondPods(t, g.inBackoff)
		for _, r := range g.inBackoff {
			r.waitForRunningRanks(t, g.restarts)
		}
	}
	wait.For(t, "the gang of two Jobs", func(ctx context.Context) error {
		j, err := s.client.BatchV1().Jobs(pair).Get(ctx, "train-master", metav1.GetOptions{})
		if err == nil && lifecycle.ReadPhase(gang.Workload{Job: j}) != lifecycle.Running {
			err = errors.New(j.Labels[gang.LabelPhase])
		}
		return err
	})
	for _, ns := range []string{running[0].namespace, running[1].namespace, pair} {
		g.running = append(g.running, s.observeRunningGang(t, ns))
	}
	return g
}

// createSuspendedGang creates a gang whose Job a user or a queue has suspended.
func (s *testCluster) createSuspendedGang(t *testing.T, queue string) *terminableGang {
	t.Helper()
	g := &terminableGang{testCluster: s, namespace: s.createNamespace(t), name: "train"}
	s.createProgram(t, g.namespace, "train.sh", ignoreTerminationProgram)
	spec := s.newPodSpec("sh", "train.sh")
	spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	labels := map[string]string{gang.LabelFramework: "pytorch"}
	if queue != "" {
		labels[gang.LabelQueueName] = queue
	}
	if _, err := s.client.BatchV1().Jobs(g.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: g.name, Labels: labels},
		Spec: batchv1.JobSpec{
			Suspend: ptr.To(true), Parallelism: ptr.To[int32](drainedRanks), Completions: ptr.To[int32](drainedRanks),
			Template: corev1.PodTemplateSpec{Spec: spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.waitForPhase(t, lifecycle.Suspended)
	return g
}

// createFinishedGang creates a gang whose programs exit with a code.
func (s *testCluster) createFinishedGang(t *testing.T, code int) *terminableGang {
	t.Helper()
	g := &terminableGang{testCluster: s, namespace: s.createNamespace(t), name: "train"}
	s.createProgram(t, g.namespace, "train.sh", fmt.Sprintf("exit %d\n", code))
	s.createJob(t, g.namespace, g.name, drainedRanks,
		map[string]string{gang.AnnotationMaxRestarts: "0"}, s.newPodSpec("sh", "train.sh"))
	want := lifecycle.Succeeded
	if code != 0 {
		want = lifecycle.Failed
	}
	g.waitForPhase(t, want)
	return g
}

func (g *terminableGang) waitForPhase(t *testing.T, phase lifecycle.Phase) {
	t.Helper()
	wait.For(t, g.namespace+"/"+g.name+" to be "+string(phase), func(ctx context.Context) error {
		w, err := g.read(ctx)
		if err == nil && lifecycle.ReadPhase(w) != phase {
			err = fmt.Errorf("phase %s: %s", lifecycle.ReadPhase(w), w.Meta().Annotations[gang.AnnotationStatus])
		}
		return err
	})
}

// observeRunningGang returns what an upgrade must not change in a namespace.
func (s *testCluster) observeRunningGang(t *testing.T, ns string) runningGang {
	t.Helper()
	out := runningGang{namespace: ns, pods: map[string]types.UID{}, revisions: map[string]string{}}
	pods, err := s.client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		out.pods[pod.Name] = pod.UID
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 || c.State.Running == nil || pod.DeletionTimestamp != nil {
				t.Errorf("pod %s/%s has %d restarts and the state %+v", ns, pod.Name, c.RestartCount, c.State)
			}
		}
	}
	sets, err := s.client.AppsV1().StatefulSets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets.Items {
		out.revisions[set.Name] = fmt.Sprintf("%s of generation %d", set.Status.UpdateRevision, set.Generation)
	}
	jobs, err := s.client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs.Items {
		out.revisions[job.Name] = fmt.Sprintf("generation %d", job.Generation)
	}
	return out
}

// beginRestarts deletes a pod of each gang that restarts, and returns when the gangs are restarting.
func (g *upgradeGangs) beginRestarts(t *testing.T) {
	t.Helper()
	g.restarts++
	g.terminatingRestarts++
	restarting := append(slices.Clone(g.inBackoff), g.terminating)
	deleteSecondPods(t, restarting)
	for _, r := range restarting {
		r.waitForPhase(t, lifecycle.Restarting)
	}
}

// deleteSecondPods deletes the pod of rank 1 of each gang.
func deleteSecondPods(t *testing.T, gangs []*terminableGang) {
	t.Helper()
	for _, g := range gangs {
		for _, pod := range g.listPods(t, g.namespace, g.name) {
			if gang.PodIndex(&pod) != 1 || pod.DeletionTimestamp != nil {
				continue
			}
			if err := g.deletePod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// check checks that the running gangs were not disturbed, that restarts complete once, and that suspended and
// finished gangs are still suspended and finished.
func (g *upgradeGangs) check(t *testing.T) {
	t.Helper()
	for _, before := range g.running {
		after := g.observeRunningGang(t, before.namespace)
		if diff := cmp.Diff(before, after, cmp.AllowUnexported(runningGang{})); diff != "" {
			t.Errorf("a running gang changed (-before +after):\n%s", diff)
		}
	}
	for _, r := range g.inBackoff {
		r.waitForRunningRanks(t, g.restarts)
	}
	g.terminating.waitForRunningRanks(t, g.terminatingRestarts)
	for i, r := range g.finished {
		r.waitForPhase(t, []lifecycle.Phase{lifecycle.Succeeded, lifecycle.Failed}[i])
	}
}

// resume resumes a suspended gang, as its user or a queue does.
func (g *upgradeGangs) resume(t *testing.T, r *terminableGang) {
	t.Helper()
	w, err := r.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !w.IsSuspended() || lifecycle.ReadPhase(w) != lifecycle.Suspended {
		t.Errorf("%s/%s is %s before it is resumed", r.namespace, r.name, lifecycle.ReadPhase(w))
	}
	if _, err := g.client.BatchV1().Jobs(r.namespace).Patch(t.Context(), r.name, types.MergePatchType,
		[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitForRunningRanks(t, 0)
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestRestart runs gangs with failing ranks and real Job and StatefulSet controllers.
func TestRestart(t *testing.T) {
	m := &manager{installation.New(t, startCluster(t, cluster.Options{Nodes: cluster.NoNodes}))}
	// This test runs first, because it counts all writes of the manager, and gangs of other tests
	// continue to exist.
	t.Run("Writes", func(t *testing.T) { testRestartWrites(t, m) })
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"Job":                  testRestartJob,
		"StatefulSet":          testRestartStatefulSet,
		"SetOnDelete":          testRestartSetOnDelete,
		"LauncherAndWorkers":   testRestartLauncherAndWorkers,
		"MasterAndWorkers":     testRestartMasterAndWorkers,
		"PodDeleted":           testRestartPodDeleted,
		"ManyPodsDeleted":      testRestartManyPodsDeleted,
		"OftenDeleted":         testRestartRepeatedDeletions,
		"TooOftenDeleted":      testRestartDeletionsExceedMaxDisruptions,
		"OwnBackoff":           testRestartUserBackoffLimit,
		"SimultaneousFailures": testRestartSimultaneousFailures,
		"MaxRestarts":          testRestartMaxRestarts,
		"SidecarExit":          testRestartSidecarExit,
		"StatefulSetFails":     testStatefulSetFails,
		"PolicyPod":            testRestartPolicyPod,
		"PolicyNever":          testRestartPolicyNever,
		"NonRetriableExitCode": testNonRetriableExitCode,
		"BackoffLimitZero":     testBackoffLimitZero,
		"Elastic":              testElasticRankFails,
		"Suspended":            testSuspendAndResume,
		"ResumedTooEarly":      testResumeNextToTerminatingPod,
		"ResumedByAnother":     testRestartResumedExternally,
		"QueueWithoutKueue":    testRestartQueueWithoutKueue,
		"StartTimeout":         testRestartStartTimeout,
		"StallReported":        testStallReported,
		"RankSucceededBefore":  testRestartAfterRankSucceeded,
		"SuccessPolicy":        testSuccessPolicyRole,
		"SuccessBeforeFailure": testSuccessBeforeFailure,
		"CleanNone":            testCleanPodPolicyNone,
		"CleanNoneSet":         testStatefulSetRunsOn,
		"NodeLost":             testRestartNodeLost,
		"NodeLostSet":          testRestartStatefulSetNodeLost,
		"StatefulSetRank0":     testStatefulSetRank0Succeeds,
		"TensorFlowWorker0":    testTensorFlowWorker0Succeeds,
		"AvoidUnhealthyDevice": testAvoidUnhealthyDevice,
		"AvoidNodeAfterTwo":    testAvoidNodeAfterTwoFailures,
		"SuspectNode":          testSuspectNode,
		"Detach":               testDetachRestarting,
		"DetachMembers":        testDetachRestartingMembers,
		"LimitWithoutManager":  testLimitWithoutManager,
		"Command":              testCommand,
		"ResizeDenied":         testResizeDenied,
		"RemovedMemberCounts":  testRemovedMemberCounts,
		"RemovedMemberMissed":  testRemovedMemberIsNotMissed,
		"StrangerFirst":        testStrangerBeforeStatus,
		"JobResized":           testJobResized,
	})
	t.Run("ControllerStopped", func(t *testing.T) { testControllerStopped(t, m) })
	t.Run("FailureBeforeSuspension", func(t *testing.T) { testFailureBeforeSuspension(t, m) })
}

// withoutPodGC disables the pod garbage collector. Every 20 s it would fail terminating pods
// without a node, and a gang does not wait for failed pods.
var withoutPodGC = cluster.Options{
	Nodes:                  cluster.NoNodes,
	ControllerManagerFlags: []string{"--controllers=*,-pod-garbage-collector-controller"},
}

// TestRestartWhileTerminating tests gangs while their pods terminate.
func TestRestartWhileTerminating(t *testing.T) {
	m := &manager{installation.New(t, startCluster(t, withoutPodGC))}
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"RootReportedLate":   testFirstFailureReportedLate,
		"SuspendedMeanwhile": testSuspendDuringRestart,
		"OneSuspended":       testRestartOneMemberSuspended,
		"FailureTarget":      testFailureTarget,
		"Flux":               testGitOps(func(*testing.T) gitOpsTool { return flux{} }),
		"ArgoCD":             testGitOps(newArgoCD),
	})
}

// testRestartJob checks that all ranks restart, the Job counts no failure, and the status has the
// first failure.
func testRestartJob(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	s := r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	if c := s.FirstFailure; c == nil || c.Rank != 1 || c.ExitCode != 3 || c.Pod != before["worker-1"].Name ||
		c.Container != "trainer" {
		t.Errorf("the first failure is %+v", c)
	}
	m.waitForEvent(t, ns, gang.ReasonGangRestarting)
	r.checkPhaseStable(2 * time.Second)
	all, err := r.getWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if j := all[0].Job; j.Status.Failed != 0 || ptr.Deref(j.Spec.Suspend, false) {
		t.Errorf("the Job counts %d failures, suspended is %v", j.Status.Failed, j.Spec.Suspend)
	}
	if _, err := m.Cluster.Kubectl(
		t.Context(), "-n", ns, "wait", "job/train", "--for=condition=GangRunning", "--timeout=60s",
	); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	// The second restart waits for the back-off, and the first failure does not count again.
	begin := time.Now()
	r.failContainer(r.getActivePod("worker-2"), 4)
	if s := r.waitForPhase(lifecycle.Running, 2); s.FirstFailure == nil || s.FirstFailure.Rank != 2 ||
		s.FirstFailure.ExitCode != 4 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	if took := time.Since(begin); took < lifecycle.Backoff(2)-time.Second {
		t.Errorf("the second restart took %s, less than the back-off", took)
	}
	for name := range r.listActivePods() {
		r.succeedPod(r.getActivePod(name))
	}
	r.checkSeconds(r.waitForPhase(lifecycle.Succeeded, 2))
}

// checkSeconds checks that the seconds of a finished gang, and those of the metrics, are the time since its creation.
func (r *testGang) checkSeconds(s lifecycle.Status) {
	r.t.Helper()
	wall := s.LastTransitionTime.Sub(r.getJob(r.jobs[0]).CreationTimestamp.Time)
	total := time.Duration(s.Seconds.Total()) * time.Second
	if difference := (wall - total).Abs(); difference > max(time.Second, wall/100) {
		r.t.Errorf("%s of %s are counted: %+v", total, wall, s.Seconds)
	}
	if s.Seconds.RanBeforeFailure == 0 || s.Seconds.Restarting < int64(lifecycle.Backoff(2).Seconds()) {
		r.t.Errorf("two restarts, of which the second has a back-off, are counted as %+v", s.Seconds)
	}
	wait.For(r.t, "the same seconds in the metrics", func(context.Context) error {
		for activity, seconds := range s.Seconds.All() {
			series := fmt.Sprintf(`rollcall_gang_seconds_total{activity="%s",namespace="%s"}`, activity, r.ns)
			counted, err := readMetric(r.t, r.Controller, series)
			if err != nil {
				return err
			}
			if counted != int(seconds) {
				return fmt.Errorf("%s is %d, but the status has %d", series, counted, seconds)
			}
		}
		return nil
	})
	r.t.Logf("%s: %+v", wall, s.Seconds)
}

func testRestartStatefulSet(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, singleStatefulSet)
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-2"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "")
	// The gang fails again while its new pods are less than a second old. They must not be mistaken
	// for the old pods.
	before = r.listActivePods()
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.waitForPhase(lifecycle.Running, 2)
	r.checkPodsReplaced(before, "")
	r.checkPhaseStable(2 * time.Second)
}

func testRestartLauncherAndWorkers(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newLauncherAndWorkers(2)...)
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 1)
	if s := r.waitForPhase(lifecycle.Running, 1); s.FirstFailure == nil || s.FirstFailure.Rank != 2 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
	m.succeedLauncher(t, []corev1.Pod{r.getActivePod("launcher-0")}, "reached=2\n")
	r.waitForPhase(lifecycle.Succeeded, 1)
	r.waitForPodsGone("worker")
}

func testRestartMasterAndWorkers(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartPodDeleted checks that a deleted rank restarts the gang.
func testRestartPodDeleted(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before, begin := r.listActivePods(), time.Now()
	r.deletePod(before["worker-1"])
	r.waitForPhase(lifecycle.Running, 1)
	t.Logf("running again after %.1f s", time.Since(begin).Seconds())
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartSimultaneousFailures checks that ranks that fail separately after the loss of a peer
// cause only one restart.
func testRestartSimultaneousFailures(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(4))
	before := r.listActivePods()
	for _, p := range before { // some pods may already be terminating
		r.failContainerIfPresent(p, 1)
	}
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartMaxRestarts checks that a gang with too many failures fails, and that its status has
// the last first failure.
func testRestartMaxRestarts(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2, gang.AnnotationMaxRestarts, "1"))
	r.failContainer(r.getActivePod("worker-0"), 9)
	r.waitForPhase(lifecycle.Running, 1)
	first, second := r.getActivePod("worker-1"), r.getActivePod("worker-0")
	r.failContainer(first, 5)
	time.Sleep(1100 * time.Millisecond) // kubelets report times in seconds
	r.failContainerIfPresent(second, 6)
	s := r.waitForPhase(lifecycle.Failed, 1)
	if s.FirstFailure == nil || s.FirstFailure.Rank != 1 || s.FirstFailure.ExitCode != 5 ||
		!strings.Contains(s.Message, "after 1 restart: rank 1") {
		t.Errorf("the status has the first failure %+v and the message %s", s.FirstFailure, s.Message)
	}
	r.waitForJobFailure("train")
	r.waitForPodsGone("worker")
	r.checkPhaseStable(time.Second)
	if _, err := m.Cluster.Kubectl(
		t.Context(), "-n", ns, "wait", "job/train", "--for=condition=GangFailed", "--timeout=60s",
	); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
}

// testStatefulSetFails checks that a failed StatefulSet stays at 0 replicas until its user scales
// it up.
func testStatefulSetFails(t *testing.T, m *manager, ns string) {
	w := gang.Workload{StatefulSet: newStatefulSet("train", 2)}
	w.StatefulSet.Annotations = map[string]string{gang.AnnotationMaxRestarts: "0"}
	r := m.startGang(t, ns, w)
	r.failContainer(r.getActivePod("worker-0"), 9)
	r.waitForPhase(lifecycle.Failed, 0)
	r.waitForPodsGone("worker")
	r.checkPhaseStable(time.Second)
	// Applying the manifest again must not restart it, because GitOps tools do so continuously.
	if _, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	r.checkPhaseStable(time.Second)
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "scale", "statefulset/train", "--replicas=2"); err != nil {
		t.Fatal(err)
	}
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPhaseStable(time.Second)
	r.failContainer(r.getActivePod("worker-1"), 9)
	r.waitForPhase(lifecycle.Failed, 0)
}

func testRestartPolicyPod(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2, gang.AnnotationRestartPolicy, "pod"))
	r.failContainer(r.getActivePod("worker-0"), 9)
	r.checkPhaseStable(3 * time.Second)
}

func testRestartPolicyNever(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2, gang.AnnotationRestartPolicy, "never"))
	r.failContainer(r.getActivePod("worker-0"), 9)
	if s := r.waitForPhase(lifecycle.Failed, 0); s.FirstFailure == nil || s.FirstFailure.ExitCode != 9 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForJobFailure("train")
	r.waitForPodsGone("worker")
}

// testBackoffLimitZero checks that a Job with backoffLimit: 0 is not restarted.
func testBackoffLimitZero(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, gang.Workload{Job: newJob("train", 2)})
	m.setPodPhases(t, []corev1.Pod{r.getActivePod("worker-0")}, corev1.PodFailed)
	s := r.waitForPhase(lifecycle.Failed, 0)
	if !strings.Contains(s.Message, "exited with code 3") &&
		!strings.Contains(s.Message, batchv1.JobReasonBackoffLimitExceeded) {
		t.Errorf("the status has the message %s", s.Message)
	}
	r.waitForJobFailure("train")
}

// testElasticRankFails checks that an elastic gang continues without the failed rank.
func testElasticRankFails(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3, gang.AnnotationElastic, "2:3"))
	r.failContainer(r.getActivePod("worker-0"), 9)
	r.checkPhaseStable(3 * time.Second)
}

// testSuspendAndResume checks that a gang that its user suspends and resumes has no failure, and that the webhook sets
// the number of the attempt for a user who resumes it before Rollcall has.
func testSuspendAndResume(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before := r.listActivePods()
	r.patchJob("train", `{"spec":{"suspend":true}}`)
	r.waitForPhase(lifecycle.Suspended, 0)
	r.waitForPodsGone("worker")
	r.checkPhaseStable(time.Second)
	wait.For(t, "a resumption to change the number of the last attempt", func(ctx context.Context) error {
		const patch = `{"spec":{"suspend":false,"template":{"metadata":{"labels":{"` + gang.LabelAttempt + `":"0"}}}}}`
		job, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "train", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && job.Spec.Template.Labels[gang.LabelAttempt] != "1" {
			err = fmt.Errorf("the template has the labels %v", job.Spec.Template.Labels)
		}
		return err
	})
	r.resumeJob("train")
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartResumedExternally checks that a controller that resumes suspended Jobs immediately cannot
// start the next attempt too early. The webhook keeps the Job suspended.
func testRestartResumedExternally(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3, gang.AnnotationMaxRestarts, "50"))
	ctx, cancel := context.WithCancel(t.Context())
	resumed := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
			if err == nil && ptr.Deref(j.Spec.Suspend, false) {
				if _, err := m.Client.BatchV1().Jobs(ns).Patch(
					ctx, "train", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{},
				); err == nil {
					n++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		resumed <- n
	}()
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	wait.For(t, "a running gang after another restart, or the failure", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err != nil {
			return err
		}
		if s := lifecycle.ReadStatus(all[0]); s.Restarts == 0 || s.Phase != lifecycle.Running {
			return fmt.Errorf("%s with %d restarts: %s", s.Phase, s.Restarts, s.Message)
		}
		for name, p := range r.listActivePods() {
			if before[name].UID == p.UID {
				return errors.New(name + " was not restarted")
			}
		}
		return nil
	})
	r.checkPhaseStable(3 * time.Second)
	cancel()
	n := <-resumed
	all, err := r.getWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := lifecycle.ReadStatus(all[0])
	t.Logf("%d attempts to resume; %d restarts, the Job counts %d failed pods", n, s.Restarts, all[0].Job.Status.Failed)
	if n == 0 || s.Restarts != 1 {
		t.Errorf("%d restarts after %d attempts to resume, want one restart", s.Restarts, n)
	}
}

// testRestartQueueWithoutKueue checks that Rollcall resumes a Job with a queue name in a cluster
// without Kueue.
func testRestartQueueWithoutKueue(t *testing.T, m *manager, ns string) {
	w := newTrainingWorkload(2)
	w.Job.Labels[gang.LabelQueueName] = "team"
	r := m.startGang(t, ns, w)
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartStartTimeout checks that a gang restarts if not all ranks become ready in time.
func testRestartStartTimeout(t *testing.T, m *manager, ns string) {
	const timeout = 40 * time.Second // longer than a start of the second attempt on a loaded machine
	m.runFakeKubelet(t, ns, staysPendingInFirstAttempt)
	r := m.createGang(t, ns, newTrainingWorkload(2, gang.AnnotationStartTimeout, timeout.String()))
	s := r.waitForPhase(lifecycle.Running, 1)
	if s.FirstFailure == nil || s.FirstFailure.Reason != failure.ReasonStartTimeout ||
		!strings.Contains(s.FirstFailure.Message, "rank 1") {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	time.Sleep(timeout)
	r.checkPhaseStable(time.Second)
}

// testRestartAfterRankSucceeded checks that a rank that has succeeded runs again if one of its peers
// fails, because the peers cannot start without it.
func testRestartAfterRankSucceeded(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(3))
	before := r.listActivePods()
	r.succeedPod(r.getActivePod("worker-0"))
	wait.For(t, "the Job to count the success", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err == nil && all[0].Job.Status.Succeeded != 1 {
			err = errors.New("it is not counted")
		}
		return err
	})
	r.failContainer(r.getActivePod("worker-1"), 3)
	if s := r.waitForPhase(lifecycle.Running, 1); s.FirstFailure == nil || s.FirstFailure.ExitCode != 3 {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	// The Job keeps the pod that succeeded, which has the same index as the new pod.
	r.deletePod(before["worker-0"])
	r.checkPodsReplaced(before, "1")
}

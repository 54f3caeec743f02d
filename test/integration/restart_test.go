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
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestRestart lets ranks fall beside real Job and StatefulSet controllers.
func TestRestart(t *testing.T) {
	m := &manager{installation.New(t, cluster.Start(t, cluster.Options{Nodes: cluster.None}))}
	// First, since all that the manager writes is counted, and gangs of other tests outlive them.
	t.Run("Writes", func(t *testing.T) { testRestartWrites(t, m) })
	m.together(t, map[string]func(*testing.T, *manager, string){
		"Job":                testRestartJob,
		"StatefulSet":        testRestartSet,
		"LauncherAndWorkers": testRestartLauncher,
		"MasterAndWorkers":   testRestartMaster,
		"PodDeleted":         testRestartDeleted,
		"ManyPodsDeleted":    testRestartManyDeleted,
		"OftenDeleted":       testRestartOftenDeleted,
		"TooOftenDeleted":    testRestartTooOftenDeleted,
		"OwnBackoff":         testRestartOwnBackoff,
		"Several":            testRestartSeveral,
		"MaxRestarts":        testRestartMax,
		"Helper":             testRestartHelper,
		"SetFails":           testRestartSetFails,
		"PolicyPod":          testRestartPolicyPod,
		"PolicyNever":        testRestartPolicyNever,
		"FinalCode":          testRestartFinalCode,
		"NoBackoff":          testRestartNoBackoff,
		"Elastic":            testRestartElastic,
		"Suspended":          testRestartSuspended,
		"ResumedByAnother":   testRestartResumed,
		"QueueWithoutKueue":  testRestartQueue,
		"StartTimeout":       testRestartStartTimeout,
		"DoneBefore":         testRestartDoneBefore,
		"SuccessPolicy":      testRestartSuccessPolicy,
		"CleanNone":          testRestartCleanNone,
		"NodeLost":           testRestartNodeLost,
		"NodeLostSet":        testRestartNodeLostSet,
		"SetRank0":           testRestartSetRank0,
		"Worker0":            testRestartWorker0,
	})
}

// withoutPodGC leaves pods alone that have no node and take their time to go: the collection of pods fails them, every 20 s,
// and a gang waits no longer for such.
var withoutPodGC = cluster.Options{Nodes: cluster.None, ControllerManagerFlags: []string{"--controllers=*,-pod-garbage-collector-controller"}}

// TestRestartStopping looks at gangs while they are being stopped.
func TestRestartStopping(t *testing.T) {
	m := &manager{installation.New(t, cluster.Start(t, withoutPodGC))}
	m.together(t, map[string]func(*testing.T, *manager, string){
		"RootReportedLate":   testRestartLateRoot,
		"SuspendedMeanwhile": testRestartSuspendedMeanwhile,
		"OneSuspended":       testRestartOneSuspended,
	})
}

// testRestartJob: all ranks start anew, the Job counts no failure, and the cause is told.
func testRestartJob(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3))
	before := r.alive()
	r.falls(r.pod("worker-1"), 3)
	s := r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	if c := s.Cause; c == nil || c.Rank != 1 || c.ExitCode != 3 || c.Pod != before["worker-1"].Name || c.Container != "trainer" {
		t.Errorf("the cause is %+v", c)
	}
	m.event(t, ns, gang.ReasonGangRestarting)
	r.stays(2 * time.Second)
	all, err := r.workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if j := all[0].Job; j.Status.Failed != 0 || ptr.Deref(j.Spec.Suspend, false) {
		t.Errorf("the Job counts %d failures, suspended is %v", j.Status.Failed, j.Spec.Suspend)
	}
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "wait", "job/train", "--for=condition=GangRunning", "--timeout=60s"); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	// The second time it waits, and what fell the first time does not count again.
	begin := time.Now()
	r.falls(r.pod("worker-2"), 4)
	if s := r.reaches(gang.Running, 2); s.Cause == nil || s.Cause.Rank != 2 || s.Cause.ExitCode != 4 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	if took := time.Since(begin); took < gang.Backoff(2)-time.Second {
		t.Errorf("the second restart took %s, less than its back-off", took)
	}
	for name := range r.alive() {
		r.ends(r.pod(name))
	}
	r.reaches(gang.Succeeded, 2)
}

func testRestartSet(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, oneSet)
	before := r.alive()
	r.falls(r.pod("worker-2"), 1)
	r.reaches(gang.Running, 1)
	r.fresh(before, "")
	// At once, when the new pods are not older than a second: they must not be taken for old ones.
	before = r.alive()
	r.falls(r.pod("worker-0"), 1)
	r.reaches(gang.Running, 2)
	r.fresh(before, "")
	r.stays(2 * time.Second)
}

func testRestartLauncher(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, launcherAndWorkers(2)...)
	before := r.alive()
	r.falls(r.pod("worker-1"), 1)
	if s := r.reaches(gang.Running, 1); s.Cause == nil || s.Cause.Rank != 2 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.fresh(before, "1")
	r.stays(2 * time.Second)
	m.endLauncher(t, []corev1.Pod{r.pod("launcher-0")}, "reached=2\n")
	r.reaches(gang.Succeeded, 1)
	r.gone("worker")
}

func testRestartMaster(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, masterAndWorkers()...)
	before := r.alive()
	r.falls(r.pod("worker-0"), 1)
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

// testRestartDeleted: a rank that is taken away takes the others along.
func testRestartDeleted(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3))
	before, begin := r.alive(), time.Now()
	if err := m.Client.CoreV1().Pods(ns).Delete(t.Context(), before["worker-1"].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.reaches(gang.Running, 1)
	t.Logf("running again after %.1f s", time.Since(begin).Seconds())
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

// testRestartSeveral: ranks that lose a peer fall after it, each by itself; that is one incident.
func testRestartSeveral(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(4))
	before := r.alive()
	for _, p := range before { // some are told to go before they can fall by themselves
		r.mayFall(p, 1)
	}
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

// testRestartMax: a gang that falls too often ends, and says how it fell.
func testRestartMax(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(2, gang.AnnotationMaxRestarts, "1"))
	r.falls(r.pod("worker-0"), 9)
	r.reaches(gang.Running, 1)
	first, second := r.pod("worker-1"), r.pod("worker-0")
	r.falls(first, 5)
	time.Sleep(1100 * time.Millisecond) // kubelets report to the second
	r.mayFall(second, 6)
	s := r.reaches(gang.Failed, 1)
	if s.Cause == nil || s.Cause.Rank != 1 || s.Cause.ExitCode != 5 || !strings.Contains(s.Message, "after 1 restart: rank 1") {
		t.Errorf("the status says %+v: %s", s.Cause, s.Message)
	}
	r.jobFailed("train")
	r.gone("worker")
	r.stays(time.Second)
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "wait", "job/train", "--for=condition=GangFailed", "--timeout=60s"); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
}

// testRestartSetFails: a StatefulSet that failed rests, and begins another life when its user scales it up.
func testRestartSetFails(t *testing.T, m *manager, ns string) {
	w := gang.Workload{StatefulSet: statefulSet("train", 2)}
	w.StatefulSet.Annotations = map[string]string{gang.AnnotationMaxRestarts: "0"}
	r := m.trains(t, ns, w)
	r.falls(r.pod("worker-0"), 9)
	r.reaches(gang.Failed, 0)
	r.gone("worker")
	r.stays(time.Second)
	// A manifest that is applied again does not, since tools do that all the time.
	if _, err := m.Client.AppsV1().StatefulSets(ns).Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.stays(time.Second)
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "scale", "statefulset/train", "--replicas=2"); err != nil {
		t.Fatal(err)
	}
	r.reaches(gang.Running, 0)
	r.stays(time.Second)
	r.falls(r.pod("worker-1"), 9)
	r.reaches(gang.Failed, 0)
}

func testRestartPolicyPod(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(2, gang.AnnotationRestartPolicy, "pod"))
	r.falls(r.pod("worker-0"), 9)
	r.stays(3 * time.Second)
}

func testRestartPolicyNever(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(2, gang.AnnotationRestartPolicy, "never"))
	r.falls(r.pod("worker-0"), 9)
	if s := r.reaches(gang.Failed, 0); s.Cause == nil || s.Cause.ExitCode != 9 {
		t.Errorf("the cause is %+v", s.Cause)
	}
	r.jobFailed("train")
	r.gone("worker")
}

// testRestartNoBackoff: who writes backoffLimit: 0 wants no second try.
func testRestartNoBackoff(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, gang.Workload{Job: job("train", 2)})
	m.setPods(t, []corev1.Pod{r.pod("worker-0")}, corev1.PodFailed)
	s := r.reaches(gang.Failed, 0)
	if !strings.Contains(s.Message, "exit code 3") && !strings.Contains(s.Message, batchv1.JobReasonBackoffLimitExceeded) {
		t.Errorf("the status says %s", s.Message)
	}
	r.jobFailed("train")
}

// testRestartElastic: an elastic gang goes on without the rank that fell.
func testRestartElastic(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3, gang.AnnotationElastic, "2:3"))
	r.falls(r.pod("worker-0"), 9)
	r.stays(3 * time.Second)
}

// testRestartSuspended: a gang that its user holds back did not fall, nor when it goes on.
func testRestartSuspended(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3))
	before := r.alive()
	r.patchJob("train", `{"spec":{"suspend":true}}`)
	r.reaches(gang.Suspended, 0)
	r.gone("worker")
	r.stays(time.Second)
	r.resumes("train")
	r.reaches(gang.Running, 0)
	r.fresh(before, "0")
	r.stays(2 * time.Second)
}

// testRestartResumed: a queue that lets its Jobs go whenever they are suspended is not fought with.
func testRestartResumed(t *testing.T, m *manager, ns string) {
	if m.Cluster.Release() == cluster.Floor {
		t.Skip("a Job that is let go before its start time is taken back never has pods again: kubernetes#134521")
	}
	// Where the Job controller never sees that the Job is suspended, attempts are spent without a back-off.
	r := m.trains(t, ns, training(3, gang.AnnotationMaxRestarts, "50"))
	ctx, cancel := context.WithCancel(t.Context())
	resumed := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
			if err == nil && ptr.Deref(j.Spec.Suspend, false) {
				if _, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "train", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{}); err == nil {
					n++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		resumed <- n
	}()
	before := r.alive()
	r.falls(r.pod("worker-1"), 3)
	eventually(t, "another attempt that runs, or the end", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err != nil {
			return err
		}
		if s := gang.StatusOf(all[0]); s.Attempt == 0 || s.Phase != gang.Running {
			return fmt.Errorf("%s in attempt %d: %s", s.Phase, s.Attempt, s.Message)
		}
		for name, p := range r.alive() {
			if before[name].UID == p.UID {
				return errors.New(name + " was not started anew")
			}
		}
		return nil
	})
	r.stays(3 * time.Second)
	cancel()
	n := <-resumed
	all, err := r.workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := gang.StatusOf(all[0])
	t.Logf("resumed %d times by another; attempt %d, the Job counts %d failed pods", n, s.Attempt, all[0].Job.Status.Failed)
	if n != int(s.Attempt) {
		t.Errorf("attempt %d, and the Job was suspended %d times", s.Attempt, n)
	}
}

// testRestartQueue: where there is no Kueue, nobody but Rollcall lets a Job go that names a queue of it.
func testRestartQueue(t *testing.T, m *manager, ns string) {
	w := training(2)
	w.Job.Labels[gang.LabelQueue] = "team"
	r := m.trains(t, ns, w)
	before := r.alive()
	r.falls(r.pod("worker-1"), 3)
	r.reaches(gang.Running, 1)
	r.fresh(before, "1")
	r.stays(2 * time.Second)
}

// testRestartStartTimeout: a gang that does not become whole begins anew.
func testRestartStartTimeout(t *testing.T, m *manager, ns string) {
	m.node(t, ns, pending)
	r := m.gangOf(t, ns, training(2, gang.AnnotationStartTimeout, "15s"))
	s := r.reaches(gang.Running, 1)
	if s.Cause == nil || s.Cause.Reason != gang.FallLate || !strings.Contains(s.Cause.Message, "rank 1") {
		t.Errorf("the cause is %+v", s.Cause)
	}
	time.Sleep(15 * time.Second)
	r.stays(time.Second)
}

// testRestartDoneBefore: Kubernetes never starts a rank again that is done, so the others cannot begin anew.
func testRestartDoneBefore(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, training(3))
	r.ends(r.pod("worker-0"))
	eventually(t, "the Job to count it", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err == nil && all[0].Job.Status.Succeeded != 1 {
			err = errors.New("not counted")
		}
		return err
	})
	r.falls(r.pod("worker-1"), 3)
	if s := r.reaches(gang.Failed, 0); !strings.Contains(s.Message, "never starts again: rank 1") {
		t.Errorf("the status says %s", s.Message)
	}
	r.jobFailed("train")
}

// testRestartSuccessPolicy: the end of the role that counts is the gang's, and the others are stopped.
func testRestartSuccessPolicy(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, masterAndWorkers(gang.AnnotationSuccessPolicy, "worker")...)
	r.ends(r.pod("worker-0"))
	r.ends(r.pod("worker-1"))
	r.reaches(gang.Succeeded, 0)
	r.gone("master")
	r.stays(2 * time.Second)
}

func testRestartCleanNone(t *testing.T, m *manager, ns string) {
	r := m.trains(t, ns, masterAndWorkers(gang.AnnotationCleanPods, "none", gang.AnnotationSuccessPolicy, "rank0")...)
	r.ends(r.pod("master-0"))
	r.reaches(gang.Succeeded, 0)
	r.stays(2 * time.Second)
	if n := len(r.alive()); n != 3 {
		t.Errorf("%d pods are left, want all 3", n)
	}
}

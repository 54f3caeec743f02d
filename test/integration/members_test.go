package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestMembers runs gangs of several workloads, for example the Job of a launcher and the
// StatefulSet of its workers.
func TestMembers(t *testing.T) {
	m := &manager{installation.New(t, startCluster(t, cluster.Options{Nodes: cluster.NoNodes}))}
	m.waitForRankAdmission(t, m.createNamespace(t))
	// This test runs first, because it counts all writes of the manager, and gangs of other tests
	// continue to exist.
	t.Run("Writes", func(t *testing.T) { testMembersWrites(t, m) })
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"LauncherFirst":         func(t *testing.T, m *manager, ns string) { testMembersSucceed(t, m, ns, false) },
		"LauncherLast":          func(t *testing.T, m *manager, ns string) { testMembersSucceed(t, m, ns, true) },
		"WorkersNotReached":     testWorkersNotReached,
		"SomeWorkersNotReached": testSomeWorkersNotReached,
		"Failed":                testMemberFails,
		"MemberConflict":        testMemberConflict,
		"Missing":               testMemberMissing,
		"MemberWithoutRoles":    testMemberWithoutRoles,
		"MemberRecreated":       testMemberRecreated,
		"MemberOfEarlierRun":    testMemberOfEarlierRun,
		"Stranger":              testStranger,
		"RequestRejected":       testRequestRejected,
		"SuspensionRejected":    testSuspensionRejected,
		"ExcludedNamespace":     testExcludedNamespace,
		"Deleted":               testMembersDeleted,
		"KeyPairOfOther":        testKeyPairReplaced,
		"Rights":                testSecretPermissions,
	})
}

// newLauncher returns the Job of the launcher of a gang with the framework mpi.
func newLauncher(workers int32) *batchv1.Job {
	j := newJob("train-launcher", 1)
	j.Labels[gang.LabelFramework], j.Labels[gang.LabelRole] = "mpi", "launcher"
	j.Annotations = map[string]string{
		gang.AnnotationRoles:          fmt.Sprintf("launcher=1,worker=%d", workers),
		gang.AnnotationSlotsPerWorker: "1",
	}
	return j
}

// newWorkers returns the StatefulSet of its workers.
func newWorkers(workers int32) *appsv1.StatefulSet {
	s := newStatefulSet("train-worker", workers)
	s.Labels[gang.LabelFramework], s.Labels[gang.LabelRole] = "mpi", "worker"
	s.Annotations = map[string]string{gang.AnnotationRoles: fmt.Sprintf("worker=%d,launcher=1", workers)}
	return s
}

// getLauncherAndWorkers reads both.
func (m *manager) getLauncherAndWorkers(ctx context.Context, ns string) ([]gang.Workload, error) {
	j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-launcher", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	s, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "train-worker", metav1.GetOptions{})
	return []gang.Workload{{Job: j}, {StatefulSet: s}}, err
}

// reportedStatus holds the fields of the status annotation that the tests read.
type reportedStatus struct {
	Reason  gang.Reason `json:"reason"`
	Message string      `json:"message"`
}

func parseReportedStatus(w gang.Workload) reportedStatus {
	var s reportedStatus
	// Without the annotation, the result is the zero value.
	_ = json.Unmarshal([]byte(w.Meta().Annotations[gang.AnnotationStatus]), &s)
	return s
}

// waitForStatus waits until all workloads report the phase and the reason. It returns the message,
// which must be the same on all of them.
func waitForStatus(
	t *testing.T, phase lifecycle.Phase, reason gang.Reason, read func(context.Context) ([]gang.Workload, error),
) string {
	t.Helper()
	var message string
	wait.For(t, fmt.Sprintf("%s, %s", phase, reason), func(ctx context.Context) error {
		all, err := read(ctx)
		if err != nil {
			return err
		}
		message = parseReportedStatus(all[0]).Message
		for _, w := range all {
			if s := parseReportedStatus(w); w.Meta().Labels[gang.LabelPhase] != string(phase) || s.Reason != reason ||
				s.Message != message {
				return fmt.Errorf("%s: label %q, status %+v", w.Meta().Name, w.Meta().Labels[gang.LabelPhase], s)
			}
		}
		return nil
	})
	return message
}

func (m *manager) waitForMemberStatus(t *testing.T, ns string, phase lifecycle.Phase, reason gang.Reason) string {
	t.Helper()
	return waitForStatus(t, phase, reason, func(ctx context.Context) ([]gang.Workload, error) {
		return m.getLauncherAndWorkers(ctx, ns)
	})
}

// filterByRole returns the pods of a role.
func filterByRole(pods []corev1.Pod, role string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Labels[gang.LabelRole] != role })
}

// startLauncherGang creates the gang and reports all of its pods as ready.
func (m *manager) startLauncherGang(t *testing.T, ns string, workers int32) []corev1.Pod {
	t.Helper()
	m.createJob(t, ns, newLauncher(workers))
	m.createStatefulSet(t, ns, newWorkers(workers))
	pods := m.waitForPods(t, ns, "train", int(workers)+1)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForMemberStatus(t, ns, lifecycle.Running, gang.ReasonGangRunning)
	return pods
}

// succeedLauncher reports that all containers of the launcher exited with code 0, as a kubelet
// does.
func (m *manager) succeedLauncher(t *testing.T, pods []corev1.Pod, word string) {
	t.Helper()
	p := filterByRole(pods, "launcher")[0]
	ended := func(name, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Message: message}}}
	}
	p.ResourceVersion = ""
	p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded,
		InitContainerStatuses: []corev1.ContainerStatus{
			ended(ssh.SetupContainerName, ""), ended(ssh.MonitorContainerName, word),
		},
		ContainerStatuses: []corev1.ContainerStatus{ended("trainer", "")},
	}
	if _, err := m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("reporting the end of the launcher: %v", err)
	}
}

// testMembersSucceed checks that all members of a gang have the same phase, in either order of
// creation.
func testMembersSucceed(t *testing.T, m *manager, ns string, backwards bool) {
	if backwards {
		m.createStatefulSet(t, ns, newWorkers(2))
		m.waitForService(t, ns, "train")
		m.createJob(t, ns, newLauncher(2))
	} else {
		m.createJob(t, ns, newLauncher(2))
		m.waitForService(t, ns, "train")
		m.createStatefulSet(t, ns, newWorkers(2))
	}
	m.waitForServiceOwners(t, ns, "train", 2)
	testKeyPair(t, m, ns)
	pods := m.waitForPods(t, ns, "train", 3)
	for i, p := range filterByRole(pods, "worker") {
		if p.Labels[gang.LabelRank] != fmt.Sprint(i+1) {
			t.Errorf("%s has the rank %q", p.Name, p.Labels[gang.LabelRank])
		}
	}
	m.setPodPhases(t, filterByRole(pods, "worker"), corev1.PodRunning)
	wait.For(t, "the workers to be ready", func(ctx context.Context) error {
		all, err := m.getLauncherAndWorkers(ctx, ns)
		if err == nil && all[1].StatefulSet.Status.ReadyReplicas != 2 {
			err = errors.New("not ready")
		}
		return err
	})
	if all, err := m.getLauncherAndWorkers(t.Context(), ns); err != nil ||
		lifecycle.ReadPhase(all[1]) != lifecycle.Pending {
		t.Errorf("without its launcher, the gang has the phase %s (error: %v)", lifecycle.ReadPhase(all[1]), err)
	}
	m.setPodPhases(t, filterByRole(pods, "launcher"), corev1.PodRunning)
	m.waitForMemberStatus(t, ns, lifecycle.Running, gang.ReasonGangRunning)
	m.succeedLauncher(t, pods, "reached=2\n")
	m.waitForMemberStatus(t, ns, lifecycle.Succeeded, gang.ReasonGangSucceeded)
	if _, err := m.Cluster.Kubectl(
		t.Context(), "-n", ns, "wait", "job/train-launcher", "--for=condition=GangSucceeded", "--timeout=60s",
	); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	// Rollcall deletes the workers. This must not change the phase.
	wait.For(t, "the deletion of the workers", func(ctx context.Context) error {
		all, err := m.getLauncherAndWorkers(ctx, ns)
		if err == nil && all[1].StatefulSet.Status.Replicas != 0 {
			err = errors.New("they still exist")
		}
		return err
	})
	time.Sleep(200 * time.Millisecond) // a write would take a few milliseconds
	m.waitForMemberStatus(t, ns, lifecycle.Succeeded, gang.ReasonGangSucceeded)
}

// testWorkersNotReached checks the warning for an mpirun that ignores its hostfile: it runs all
// ranks in the launcher and succeeds.
func testWorkersNotReached(t *testing.T, m *manager, ns string) {
	m.succeedLauncher(t, m.startLauncherGang(t, ns, 2), "reached=0\n")
	if message := m.waitForMemberStatus(
		t, ns, lifecycle.Succeeded, gang.ReasonWorkersNotReached,
	); !strings.Contains(message, "reached only 0 of 2 workers") {
		t.Errorf("the status is: %s", message)
	}
	m.waitForEvent(t, ns, gang.ReasonWorkersNotReached)
}

func testSomeWorkersNotReached(t *testing.T, m *manager, ns string) {
	m.succeedLauncher(t, m.startLauncherGang(t, ns, 3), "reached=1\n")
	if message := m.waitForMemberStatus(
		t, ns, lifecycle.Succeeded, gang.ReasonWorkersNotReached,
	); !strings.Contains(message, "reached only 1 of 3 workers") {
		t.Errorf("the status is: %s", message)
	}
}

// testMemberFails checks that the failure of one member fails the gang.
func testMemberFails(t *testing.T, m *manager, ns string) {
	m.setPodPhases(t, filterByRole(m.startLauncherGang(t, ns, 2), "launcher"), corev1.PodFailed)
	if message := m.waitForMemberStatus(
		t, ns, lifecycle.Failed, gang.ReasonGangFailed,
	); !strings.Contains(message, "rank 0 (pod train-launcher-0-") {
		t.Errorf("the status is: %s", message)
	}
}

// testMemberConflict checks two members with different roles. Admission accepts each of them,
// because only both together show the conflict.
func testMemberConflict(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newLauncher(2))
	m.createStatefulSet(t, ns, newWorkers(3))
	message := m.waitForMemberStatus(t, ns, lifecycle.Pending, gang.ReasonMemberConflict)
	for _, want := range []string{
		"rollcall.training/roles",
		"the Job train-launcher has launcher=1,worker=2",
		"the StatefulSet train-worker has launcher=1,worker=3",
		"set the same value on all members",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in: %s", want, message)
		}
	}
	m.waitForEvent(t, ns, gang.ReasonMemberConflict)
	mend := []byte(
		`{"metadata":{"annotations":{"` + gang.AnnotationRoles + `":"launcher=1, worker=2"}},"spec":{"replicas":2}}`,
	)
	if _, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "train-worker", types.MergePatchType, mend, metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	m.waitForMemberStatus(t, ns, lifecycle.Pending, gang.ReasonGangPending)
}

// testMemberMissing checks that the status of an incomplete gang names the missing member.
func testMemberMissing(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newLauncher(2))
	readMembers := func(ctx context.Context) ([]gang.Workload, error) {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-launcher", metav1.GetOptions{})
		return []gang.Workload{{Job: j}}, err
	}
	message := waitForStatus(t, lifecycle.Pending, gang.ReasonMembersMissing, readMembers)
	if message != "Waiting for train-worker (role worker, 2 pods)" {
		t.Errorf("the status is: %s", message)
	}
	m.createStatefulSet(t, ns, newWorkers(2))
	pods := m.waitForPods(t, ns, "train", 3)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForMemberStatus(t, ns, lifecycle.Running, gang.ReasonGangRunning)
}

// testMemberWithoutRoles checks a worker without roles, which forms an unintended gang of its own.
func testMemberWithoutRoles(t *testing.T, m *manager, ns string) {
	stray := newStatefulSet("train-worker", 2)
	stray.Labels[gang.LabelRole] = "worker" // a worker of pytorch, which may be the only role
	m.createStatefulSet(t, ns, stray)
	master := newJob("train-master", 1)
	master.Labels[gang.LabelRole] = "master"
	master.Annotations = map[string]string{gang.AnnotationRoles: "master=1,worker=2"}
	m.createJob(t, ns, master)
	readMembers := func(ctx context.Context) ([]gang.Workload, error) {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-master", metav1.GetOptions{})
		return []gang.Workload{{Job: j}}, err
	}
	message := waitForStatus(t, lifecycle.Pending, gang.ReasonMemberConflict, readMembers)
	if !strings.Contains(
		message, "the Job train-master has train, the StatefulSet train-worker has train-worker",
	) {
		t.Errorf("the status is: %s", message)
	}
	mend := []byte(`{"metadata":{"annotations":{"` + gang.AnnotationRoles + `":"master=1,worker=2"}}}`)
	_, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "train-worker", types.MergePatchType, mend, metav1.PatchOptions{},
	)
	if err == nil {
		t.Error("the StatefulSet joined a gang although its immutable serviceName differs")
	}
}

// testMembersDeleted checks that the Service and the Secret are deleted with the last member.
func testMembersDeleted(t *testing.T, m *manager, ns string) {
	m.startLauncherGang(t, ns, 2)
	before := m.waitForServiceOwners(t, ns, "train", 2)
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), "train-launcher", background); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "one owner", func(context.Context) error {
		now := m.waitForService(t, ns, "train")
		if now.UID != before.UID {
			t.Fatal("the Service was deleted with its first owner")
		}
		if len(now.OwnerReferences) != 1 {
			return fmt.Errorf("%d owners", len(now.OwnerReferences))
		}
		return nil
	})
	if _, err := m.Client.CoreV1().Secrets(ns).Get(t.Context(), "train-rollcall-ssh", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret was deleted with its first owner: %v", err)
	}
	if err := m.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train-worker", background); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the deletion of the children", func(ctx context.Context) error {
		_, err1 := m.Client.CoreV1().Services(ns).Get(ctx, "train", metav1.GetOptions{})
		_, err2 := m.Client.CoreV1().Secrets(ns).Get(ctx, "train-rollcall-ssh", metav1.GetOptions{})
		for what, err := range map[string]error{"Service": err1, "Secret": err2} {
			if err == nil {
				return fmt.Errorf("the %s still exists", what)
			}
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading the %s: %w", what, err)
			}
		}
		return nil
	})
}

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
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestMembers follows gangs of several workloads: a launcher's Job beside its workers' StatefulSet.
func TestMembers(t *testing.T) {
	m := &manager{installation.New(t, cluster.Start(t, cluster.Options{Nodes: cluster.None}))}
	m.awaitRanks(t, m.namespace(t))
	// First, since all that the manager writes is counted, and gangs of other tests outlive them.
	t.Run("Writes", func(t *testing.T) { testMembersWrites(t, m) })
	m.together(t, map[string]func(*testing.T, *manager, string){
		"LauncherFirst":  func(t *testing.T, m *manager, ns string) { testMembersLife(t, m, ns, false) },
		"LauncherLast":   func(t *testing.T, m *manager, ns string) { testMembersLife(t, m, ns, true) },
		"OneHost":        testOneHost,
		"OneHostOfMany":  testOneHostOfMany,
		"Failed":         testMemberFails,
		"Disagree":       testMembersDisagree,
		"Missing":        testMemberMissing,
		"Stray":          testMemberStray,
		"Elsewhere":      testMemberElsewhere,
		"Deleted":        testMembersDeleted,
		"KeyPairOfOther": testKeyPairOfAnother,
		"Rights":         testSecretRights,
	})
}

// launcher is the first member of a gang of mpi that has so many workers.
func launcher(workers int32) *batchv1.Job {
	j := job("train-launcher", 1)
	j.Labels[gang.LabelFramework], j.Labels[gang.LabelRole] = "mpi", "launcher"
	j.Annotations = map[string]string{gang.AnnotationRoles: fmt.Sprintf("launcher=1,worker=%d", workers), gang.AnnotationSlots: "1"}
	return j
}

// worker is the second.
func worker(workers int32) *appsv1.StatefulSet {
	s := statefulSet("train-worker", workers)
	s.Labels[gang.LabelFramework], s.Labels[gang.LabelRole] = "mpi", "worker"
	s.Annotations = map[string]string{gang.AnnotationRoles: fmt.Sprintf("worker=%d,launcher=1", workers)}
	return s
}

// members reads both.
func (m *manager) members(ctx context.Context, ns string) ([]gang.Workload, error) {
	j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-launcher", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	s, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "train-worker", metav1.GetOptions{})
	return []gang.Workload{{Job: j}, {StatefulSet: s}}, err
}

// said is the annotation that holds what Rollcall says of a gang.
type said struct {
	Reason  gang.Reason `json:"reason"`
	Message string      `json:"message"`
}

func status(w gang.Workload) said {
	var s said
	_ = json.Unmarshal([]byte(w.Meta().Annotations[gang.AnnotationStatus]), &s) // not there yet: the zero value
	return s
}

// told waits until all workloads tell the phase, with the reason, and returns the message, which is the same on all.
func told(t *testing.T, phase gang.Phase, reason gang.Reason, read func(context.Context) ([]gang.Workload, error)) string {
	t.Helper()
	var message string
	eventually(t, fmt.Sprintf("%s, %s", phase, reason), func(ctx context.Context) error {
		all, err := read(ctx)
		if err != nil {
			return err
		}
		message = status(all[0]).Message
		for _, w := range all {
			if s := status(w); w.Meta().Labels[gang.LabelPhase] != string(phase) || s.Reason != reason || s.Message != message {
				return fmt.Errorf("%s: label %q, status %+v", w.Meta().Name, w.Meta().Labels[gang.LabelPhase], s)
			}
		}
		return nil
	})
	return message
}

func (m *manager) told(t *testing.T, ns string, phase gang.Phase, reason gang.Reason) string {
	t.Helper()
	return told(t, phase, reason, func(ctx context.Context) ([]gang.Workload, error) { return m.members(ctx, ns) })
}

// role returns the pods of a role.
func role(pods []corev1.Pod, role string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Labels[gang.LabelRole] != role })
}

// run creates the gang and reports all of its pods ready.
func (m *manager) run(t *testing.T, ns string, workers int32) []corev1.Pod {
	t.Helper()
	m.createJob(t, ns, launcher(workers))
	m.createStatefulSet(t, ns, worker(workers))
	pods := m.pods(t, ns, "train", int(workers)+1)
	m.setPods(t, pods, corev1.PodRunning)
	m.told(t, ns, gang.Running, gang.ReasonGangRunning)
	return pods
}

// endLauncher reports the end of the launcher, as a kubelet does: all of its containers have ended by then.
func (m *manager) endLauncher(t *testing.T, pods []corev1.Pod, word string) {
	t.Helper()
	p := role(pods, "launcher")[0]
	ended := func(name, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Message: message}}}
	}
	p.ResourceVersion = ""
	p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded,
		InitContainerStatuses: []corev1.ContainerStatus{ended(ssh.Prepare, ""), ended(ssh.Watch, word)},
		ContainerStatuses:     []corev1.ContainerStatus{ended("trainer", "")},
	}
	if _, err := m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("reporting the end of the launcher: %v", err)
	}
}

// testMembersLife: a gang has one phase, whichever of its members one asks, and whichever came first.
func testMembersLife(t *testing.T, m *manager, ns string, backwards bool) {
	if backwards {
		m.createStatefulSet(t, ns, worker(2))
		m.service(t, ns, "train")
		m.createJob(t, ns, launcher(2))
	} else {
		m.createJob(t, ns, launcher(2))
		m.service(t, ns, "train")
		m.createStatefulSet(t, ns, worker(2))
	}
	m.owned(t, ns, "train", 2)
	testKeyPair(t, m, ns)
	pods := m.pods(t, ns, "train", 3)
	for i, p := range role(pods, "worker") {
		if p.Labels[gang.LabelRank] != fmt.Sprint(i+1) {
			t.Errorf("%s has the rank %q", p.Name, p.Labels[gang.LabelRank])
		}
	}
	m.setPods(t, role(pods, "worker"), corev1.PodRunning)
	eventually(t, "the workers", func(ctx context.Context) error {
		all, err := m.members(ctx, ns)
		if err == nil && all[1].StatefulSet.Status.ReadyReplicas != 2 {
			err = errors.New("not ready")
		}
		return err
	})
	if all, err := m.members(t.Context(), ns); err != nil || !waits(gang.PhaseOf(all[1])) {
		t.Errorf("without its launcher, the gang is %s, %v", gang.PhaseOf(all[1]), err)
	}
	m.setPods(t, role(pods, "launcher"), corev1.PodRunning)
	m.told(t, ns, gang.Running, gang.ReasonGangRunning)
	m.endLauncher(t, pods, "reached=2\n")
	m.told(t, ns, gang.Succeeded, gang.ReasonGangSucceeded)
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "wait", "job/train-launcher", "--for=condition=GangSucceeded", "--timeout=60s"); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	// Its workers are taken away, and that does not matter any more.
	eventually(t, "the workers' end", func(ctx context.Context) error {
		all, err := m.members(ctx, ns)
		if err == nil && all[1].StatefulSet.Status.Replicas != 0 {
			err = errors.New("still there")
		}
		return err
	})
	time.Sleep(200 * time.Millisecond) // what would be written takes a few milliseconds
	m.told(t, ns, gang.Succeeded, gang.ReasonGangSucceeded)
}

// testOneHost: an mpirun that ignores its hostfile runs all ranks in the launcher, and succeeds.
func testOneHost(t *testing.T, m *manager, ns string) {
	m.endLauncher(t, m.run(t, ns, 2), "reached=0\n")
	if said := m.told(t, ns, gang.Succeeded, gang.ReasonRanksOnOneHost); !strings.Contains(said, "reached none of the 2 hosts") {
		t.Errorf("the status is: %s", said)
	}
	m.event(t, ns, gang.ReasonRanksOnOneHost)
}

func testOneHostOfMany(t *testing.T, m *manager, ns string) {
	m.endLauncher(t, m.run(t, ns, 3), "reached=1\n")
	if said := m.told(t, ns, gang.Succeeded, gang.ReasonRanksOnOneHost); !strings.Contains(said, "reached 1 of the 3 hosts") {
		t.Errorf("the status is: %s", said)
	}
}

// testMemberFails: the failure of one is that of all.
func testMemberFails(t *testing.T, m *manager, ns string) {
	m.setPods(t, role(m.run(t, ns, 2), "launcher"), corev1.PodFailed)
	if said := m.told(t, ns, gang.Failed, gang.ReasonGangFailed); !strings.Contains(said, "rank 0 (pod train-launcher-0-") {
		t.Errorf("the status is: %s", said)
	}
}

// testMembersDisagree: each was admitted by its own text, and only together one sees that the two are no gang.
func testMembersDisagree(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, launcher(2))
	m.createStatefulSet(t, ns, worker(3))
	said := m.told(t, ns, gang.Pending, gang.ReasonMembersDisagree)
	for _, want := range []string{"rollcall.training/roles", "the Job train-launcher says launcher=1,worker=2", "the StatefulSet train-worker says launcher=1,worker=3", "make it the same"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in: %s", want, said)
		}
	}
	m.event(t, ns, gang.ReasonMembersDisagree)
	mend := []byte(`{"metadata":{"annotations":{"` + gang.AnnotationRoles + `":"launcher=1, worker=2"}},"spec":{"replicas":2}}`)
	if _, err := m.Client.AppsV1().StatefulSets(ns).Patch(t.Context(), "train-worker", types.MergePatchType, mend, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	m.told(t, ns, gang.Pending, gang.ReasonGangPending)
}

// testMemberMissing: a gang that is not complete says for whom it waits.
func testMemberMissing(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, launcher(2))
	said := told(t, gang.Pending, gang.ReasonMembersMissing, func(ctx context.Context) ([]gang.Workload, error) {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-launcher", metav1.GetOptions{})
		return []gang.Workload{{Job: j}}, err
	})
	if said != "Waiting for train-worker (role worker, 2 pods)" {
		t.Errorf("the status is: %s", said)
	}
	m.createStatefulSet(t, ns, worker(2))
	pods := m.pods(t, ns, "train", 3)
	m.setPods(t, pods, corev1.PodRunning)
	m.told(t, ns, gang.Running, gang.ReasonGangRunning)
}

// testMemberStray: a worker without roles is a gang by itself, which nobody meant.
func testMemberStray(t *testing.T, m *manager, ns string) {
	stray := statefulSet("train-worker", 2)
	stray.Labels[gang.LabelRole] = "worker" // of pytorch, where workers may be alone
	m.createStatefulSet(t, ns, stray)
	master := job("train-master", 1)
	master.Labels[gang.LabelRole] = "master"
	master.Annotations = map[string]string{gang.AnnotationRoles: "master=1,worker=2"}
	m.createJob(t, ns, master)
	said := told(t, gang.Pending, gang.ReasonMembersDisagree, func(ctx context.Context) ([]gang.Workload, error) {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-master", metav1.GetOptions{})
		return []gang.Workload{{Job: j}}, err
	})
	if !strings.Contains(said, "rollcall.training/gang: the Job train-master says train, the StatefulSet train-worker says train-worker") {
		t.Errorf("the status is: %s", said)
	}
	mend := []byte(`{"metadata":{"annotations":{"` + gang.AnnotationRoles + `":"master=1,worker=2"}}}`)
	_, err := m.Client.AppsV1().StatefulSets(ns).Patch(t.Context(), "train-worker", types.MergePatchType, mend, metav1.PatchOptions{})
	if err == nil {
		t.Error("a StatefulSet was made a member of a gang whose Service it cannot have, since its serviceName is immutable")
	}
}

// testMemberElsewhere: pods of two namespaces do not find each other.
func testMemberElsewhere(t *testing.T, m *manager, ns string) {
	there := m.namespace(t)
	// Gangs of other tests have the same names, and are not spoken of.
	m.createJob(t, ns, launcher(7))
	m.createStatefulSet(t, there, worker(7))
	read := func(ctx context.Context) ([]gang.Workload, error) {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-launcher", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		s, err := m.Client.AppsV1().StatefulSets(there).Get(ctx, "train-worker", metav1.GetOptions{})
		return []gang.Workload{{Job: j}, {StatefulSet: s}}, err
	}
	eventually(t, "each to be told of the other", func(ctx context.Context) error {
		all, err := read(ctx)
		if err != nil {
			return err
		}
		for i, want := range []string{"StatefulSet train-worker is in the namespace " + there, "Job train-launcher is in the namespace " + ns} {
			if s := status(all[i]); !strings.Contains(s.Message, want) {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// testMembersDeleted: the children go with the last member.
func testMembersDeleted(t *testing.T, m *manager, ns string) {
	m.run(t, ns, 2)
	before := m.owned(t, ns, "train", 2)
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), "train-launcher", background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one owner", func(context.Context) error {
		now := m.service(t, ns, "train")
		if now.UID != before.UID {
			t.Fatal("the Service went with the first of its owners")
		}
		if len(now.OwnerReferences) != 1 {
			return fmt.Errorf("%d owners", len(now.OwnerReferences))
		}
		return nil
	})
	if _, err := m.Client.CoreV1().Secrets(ns).Get(t.Context(), "train-rollcall-ssh", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret went with the first: %v", err)
	}
	if err := m.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train-worker", background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the children", func(ctx context.Context) error {
		_, err1 := m.Client.CoreV1().Services(ns).Get(ctx, "train", metav1.GetOptions{})
		_, err2 := m.Client.CoreV1().Secrets(ns).Get(ctx, "train-rollcall-ssh", metav1.GetOptions{})
		for what, err := range map[string]error{"Service": err1, "Secret": err2} {
			if err == nil {
				return fmt.Errorf("the %s is still there", what)
			}
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading the %s: %w", what, err)
			}
		}
		return nil
	})
}

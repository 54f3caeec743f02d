package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// deleteJob deletes a Job and waits until its name is free.
func (m *manager) deleteJob(t *testing.T, ns, name string) {
	t.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := m.Client.BatchV1().Jobs(ns).Delete(t.Context(), name, background); err != nil {
		t.Fatal(err)
	}
	m.waitForJobGone(t, ns, name)
}

// waitForJobGone waits until the name of a deleted Job is free.
func (m *manager) waitForJobGone(t *testing.T, ns, name string) {
	t.Helper()
	wait.For(t, "the deletion of "+name, func(ctx context.Context) error {
		if _, err := m.Client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("%s still exists", name)
		}
		return nil
	})
}

// testMemberRecreated checks that a gang restarts with all ranks if somebody recreates one of its Jobs,
// as a GitOps tool does to change an immutable field.
func testMemberRecreated(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	before := r.listActivePods()
	m.deleteJob(t, ns, "train-worker")
	m.createJob(t, ns, newMasterAndWorkers()[1].Job)
	r.waitForPhase(lifecycle.Running, 1)
	r.checkPodsReplaced(before, "1")
	all, err := r.getWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		if s := lifecycle.ReadStatus(w); s.FirstFailure == nil || s.FirstFailure.Reason != failure.ReasonMemberRecreated {
			t.Errorf("%s: the first failure is %+v", w.Meta().Name, s.FirstFailure)
		}
	}
}

// testMemberOfEarlierRun checks that a Job that completed in an earlier run does not complete the next
// run.
func testMemberOfEarlierRun(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	r.succeedPod(r.getActivePod("master-0"))
	r.waitForPhase(lifecycle.Succeeded, 0)
	m.deleteJob(t, ns, "train-worker")
	time.Sleep(1100 * time.Millisecond) // creation times have a resolution of one second
	m.createJob(t, ns, newMasterAndWorkers()[1].Job)
	worker := func(ctx context.Context) ([]gang.Workload, error) {
		job, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train-worker", metav1.GetOptions{})
		return []gang.Workload{{Job: job}}, err
	}
	message := waitForStatus(t, lifecycle.Pending, gang.ReasonMembersMissing, worker)
	if !strings.Contains(message, "The Job train-master finished before") {
		t.Errorf("the status is: %s", message)
	}
	m.waitForEvent(t, ns, gang.ReasonMemberOfEarlierRun)
	m.deleteJob(t, ns, "train-master")
	m.createJob(t, ns, newMasterAndWorkers()[0].Job)
	r.waitForPhase(lifecycle.Running, 0)
}

// createStranger creates a StatefulSet with the name of a member of [newMasterAndWorkers], and with other roles.
func (m *manager) createStranger(t *testing.T, ns string) {
	t.Helper()
	stranger := newStatefulSet("train-worker", 1)
	stranger.Labels[gang.LabelRole] = "worker"
	stranger.Annotations = map[string]string{gang.AnnotationRoles: "master=1,worker=1"}
	m.createStatefulSet(t, ns, stranger)
}

// testStranger checks that a StatefulSet with the name of a member and a failing program does not restart
// the gang.
func testStranger(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newMasterAndWorkers()...)
	m.createStranger(t, ns)
	waitForStatus(t, lifecycle.Running, gang.ReasonMemberConflict, r.getWorkloads)
	var pod *corev1.Pod
	wait.For(t, "the pod of the stranger", func(ctx context.Context) (err error) {
		pod, err = m.Client.CoreV1().Pods(ns).Get(ctx, "train-worker-0", metav1.GetOptions{})
		return err
	})
	if err := m.setPodPhase(t.Context(), *pod, corev1.PodFailed); err != nil && !isPodGone(err) {
		t.Fatal(err)
	}
	waitForStatus(t, lifecycle.Pending, gang.ReasonMemberConflict, func(ctx context.Context) ([]gang.Workload, error) {
		set, err := m.Client.AppsV1().StatefulSets(ns).Get(ctx, "train-worker", metav1.GetOptions{})
		return []gang.Workload{{StatefulSet: set}}, err
	})
	r.checkPhaseStable(2 * time.Second)
	if err := m.Client.AppsV1().StatefulSets(ns).Delete(t.Context(), "train-worker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForStatus(t, lifecycle.Running, gang.ReasonGangRunning, r.getWorkloads)
}

// testRequestRejected checks that a quota that rejects the Service is reported to the user.
func testRequestRejected(t *testing.T, m *manager, ns string) {
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-services"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceServices: resource.MustParse("0"),
		}},
	}
	if _, err := m.Client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The quota counts after its controller has written its status.
	wait.For(t, "the quota", func(ctx context.Context) error {
		q, err := m.Client.CoreV1().ResourceQuotas(ns).Get(ctx, quota.Name, metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = fmt.Errorf("it has no status")
		}
		return err
	})
	m.createJob(t, ns, newJob("train", 1))
	message := waitForStatus(t, lifecycle.Pending, gang.ReasonRequestRejected,
		func(ctx context.Context) ([]gang.Workload, error) {
			job, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
			return []gang.Workload{{Job: job}}, err
		})
	if !strings.Contains(message, "exceeded quota: no-services") {
		t.Errorf("the status is: %s", message)
	}
	m.waitForEvent(t, ns, gang.ReasonRequestRejected)
}

// testSuspensionRejected checks that an admission policy that rejects the suspension of a Job is reported
// to the user, and that the gang restarts when the policy is removed.
func testSuspensionRejected(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(2))
	allow := m.denyUpdates(t, ns, deniedUpdate{
		group: batchv1.GroupName, resource: "jobs",
		allowed: "!has(object.spec.suspend) || !object.spec.suspend", message: "Jobs must not be suspended",
	}, func(ctx context.Context) error {
		_, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, "train", types.MergePatchType,
			[]byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	r.failContainer(r.getActivePod("worker-0"), 1)
	message := waitForStatus(t, lifecycle.Running, gang.ReasonRequestRejected, r.getWorkloads)
	if !strings.Contains(message, "Jobs must not be suspended") {
		t.Errorf("the status is: %s", message)
	}
	m.waitForEvent(t, ns, gang.ReasonRequestRejected)
	allow()
	r.waitForPhase(lifecycle.Running, 1)
}

// testExcludedNamespace checks that the manager neither reports nor creates anything in kube-system, even
// for a Job that claims to be admitted.
func testExcludedNamespace(t *testing.T, m *manager, ns string) {
	forged := newJob("forged-"+ns, 1)
	forged.Annotations = map[string]string{gang.AnnotationInjected: "{}"}
	forged.Spec.Suspend, forged.Spec.Template.Spec.Subdomain = ptr.To(true), forged.Name
	m.createJob(t, metav1.NamespaceSystem, forged)
	t.Cleanup(func() {
		_ = m.Client.BatchV1().Jobs(metav1.NamespaceSystem).Delete(
			context.WithoutCancel(t.Context()), forged.Name, metav1.DeleteOptions{})
	})
	// The manager has observed the Job at the latest when it has handled a later Job.
	later := newJob("train", 1)
	m.createJob(t, ns, later)
	m.waitForService(t, ns, "train")
	got, err := m.Client.BatchV1().Jobs(metav1.NamespaceSystem).Get(t.Context(), forged.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status, exists := got.Annotations[gang.AnnotationStatus]; exists {
		t.Errorf("the manager wrote a status: %s", status)
	}
	if _, err := m.Client.CoreV1().Services(metav1.NamespaceSystem).Get(
		t.Context(), forged.Name, metav1.GetOptions{}); err == nil {
		t.Error("the manager created a Service in kube-system")
	}
}

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// TestGangs runs the manager with a real API server and real Job and StatefulSet controllers. There
// are no nodes, so the tests report the status of pods.
func TestGangs(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.New(t, c)}
	// This test runs first, because it counts all writes of the manager, and an Event about the ranks of another test
	// that wait for nodes is one.
	t.Run("Writes", func(t *testing.T) { testJobWrites(t, m) })
	m.runParallel(t, map[string]func(*testing.T, *manager, string){
		"JobAdmitted":             testJobAdmitted,
		"DryRun":                  testDryRun,
		"Denied":                  testJobDenied,
		"JobLabeledAfterCreation": testJobLabeledAfterCreation,
		"JobSucceeds":             testJobSucceeds,
		"JobFails":                testJobFails,
		"StatefulSetUpdates":      testStatefulSetUpdates,
		"StatefulSetLabelled":     testStatefulSetLabeledAfterCreation,
		"StatefulSetPhases":       testStatefulSetPhases,
		"ServiceRestored":         testServiceRestored,
		"ServiceConflict":         testServiceConflict,
		"ServiceShared":           testServiceShared,
		"UserService":             testUserService,
		"ExistingJob":             testExistingJob,
		"ServiceFromAddress":      testServiceFromAddress,
		"ApplyIdempotent":         testApplyIdempotent,
		"JobOptedOut":             testJobOptedOut,
		"Migrated":                testMigratedManifests,
		"MigrateFromCluster":      testMigrateFromCluster,
		"Corpus":                  testCorpus,
		"Python":                  testPython,
		"Pages":                   testPages,
		"UserRights":              testUserRights,
	})
	t.Run("Metrics", func(t *testing.T) { testAdmissionMetrics(t, m) })
	t.Run("WithoutManager", func(t *testing.T) { testWithoutManager(t, m, m.createNamespace(t)) })
}

func newJob(name string, ranks int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: batchv1.JobSpec{
			Parallelism: &ranks, Completions: &ranks, BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
			}},
		},
	}
}

func (m *manager) createJob(t *testing.T, ns string, j *batchv1.Job) *batchv1.Job {
	t.Helper()
	out, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), j, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating the Job: %v", err)
	}
	return out
}

// waitForPods waits for the pods of a gang and returns them by rank.
func (m *manager) waitForPods(t *testing.T, ns, name string, ranks int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	wait.For(t, "the pods of "+name, func(ctx context.Context) error {
		list, err := m.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: gang.LabelGang + "=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) != ranks {
			return fmt.Errorf("%d pods of %d", len(list.Items), ranks)
		}
		pods = list.Items
		return nil
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(podHostname(a), podHostname(b)) })
	return pods
}

func podHostname(p corev1.Pod) string { return p.Spec.Hostname }

// setPodPhases reports a phase for pods, as a kubelet does.
func (m *manager) setPodPhases(t *testing.T, pods []corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	for _, p := range pods {
		if err := m.setPodPhase(t.Context(), p, phase); err != nil {
			t.Fatalf("reporting the phase of a pod: %v", err)
		}
	}
}

func (m *manager) setPodPhase(ctx context.Context, p corev1.Pod, phase corev1.PodPhase) error {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	p.Status = corev1.PodStatus{
		Phase:      phase,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		code := int32(0)
		if phase == corev1.PodFailed {
			code = 3
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}}}
	}
	p.ResourceVersion = "" // the scheduler writes to the pod as well
	_, err := m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
	return err
}

// waitForEvent waits for an Event with a reason.
func (m *manager) waitForEvent(t *testing.T, ns string, reason gang.Reason) {
	t.Helper()
	m.waitForEvents(t, ns, reason, 1)
}

// waitForEvents waits for the given number of Events with a reason.
func (m *manager) waitForEvents(t *testing.T, ns string, reason gang.Reason, count int32) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%d Events %s", count, reason), func(ctx context.Context) error {
		list, err := m.Client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var reasons []string
		var n int32
		for _, e := range list.Items {
			if e.Reason == string(reason) {
				n += max(1, ptr.Deref(e.Series, eventsv1.EventSeries{}).Count) // repeated Events are one object with a count
			}
			reasons = append(reasons, e.Reason)
		}
		if n < count {
			return fmt.Errorf("reasons: %q", reasons)
		}
		return nil
	})
}

// waitForJobPhase waits until the label, the annotation and the condition of a Job have the phase.
// It returns the Job.
func (m *manager) waitForJobPhase(t *testing.T, ns string, phase lifecycle.Phase, condition string) *batchv1.Job {
	t.Helper()
	var j *batchv1.Job
	wait.For(t, "phase "+string(phase), func(ctx context.Context) (err error) {
		if j, err = m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{}); err != nil {
			return err
		}
		if phase == lifecycle.Pending && j.Labels[gang.LabelPhase] == string(phase) {
			return nil // admission sets it
		}
		if j.Labels[gang.LabelPhase] != string(phase) ||
			!strings.Contains(j.Annotations[gang.AnnotationStatus], `"phase":"`+string(phase)+`"`) {
			return fmt.Errorf("label %q, status %q", j.Labels[gang.LabelPhase], j.Annotations[gang.AnnotationStatus])
		}
		return nil
	})
	if phase == lifecycle.Pending {
		return j
	}
	if phase == lifecycle.Restarting || phase == lifecycle.Failed {
		m.waitForEvent(t, ns, phase.Reason())
	}
	if _, err := m.Cluster.Kubectl(
		t.Context(), "-n", ns, "wait", "job/train", "--for=condition="+condition, "--timeout=60s",
	); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	return j
}

// testJobSucceeds runs a gang that succeeds.
func testJobSucceeds(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	m.waitForJobPhase(t, ns, lifecycle.Pending, "")
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods[:1], corev1.PodRunning)
	wait.For(t, "the first rank to be ready", func(ctx context.Context) error {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && ptr.Deref(j.Status.Ready, 0) != 1 {
			err = fmt.Errorf("%d ready", ptr.Deref(j.Status.Ready, 0))
		}
		return err
	})
	m.waitForJobPhase(t, ns, lifecycle.Pending, "")
	m.setPodPhases(t, pods[1:], corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	m.setPodPhases(t, pods, corev1.PodSucceeded)
	m.waitForJobPhase(t, ns, lifecycle.Succeeded, "GangSucceeded")
	var done *batchv1.Job
	wait.For(t, "the Job to complete", func(ctx context.Context) error { // its controller meets the criteria first
		var err error
		done, err = m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && done.Status.CompletionTime == nil {
			err = errors.New("not complete")
		}
		return err
	})
	types := map[batchv1.JobConditionType]corev1.ConditionStatus{}
	for _, c := range done.Status.Conditions {
		types[c.Type] = c.Status
	}
	want := map[batchv1.JobConditionType]corev1.ConditionStatus{
		"GangRunning": corev1.ConditionFalse, "GangSucceeded": corev1.ConditionTrue,
		batchv1.JobComplete: corev1.ConditionTrue, batchv1.JobSuccessCriteriaMet: corev1.ConditionTrue,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("conditions at the end:\n%s", diff)
	}
	for _, mf := range done.ManagedFields {
		if mf.Manager == "rollcall-controller" && mf.Subresource != "status" {
			t.Errorf("the reconciler wrote to the workload itself: %+v", mf)
		}
	}
}

// testJobFails runs a gang that fails.
func testJobFails(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, newJob("train", 2))
	pods := m.waitForPods(t, ns, "train", 2)
	m.setPodPhases(t, pods, corev1.PodRunning)
	m.waitForJobPhase(t, ns, lifecycle.Running, "GangRunning")
	m.setPodPhases(t, pods[:1], corev1.PodFailed)
	if err := m.setPodPhase(t.Context(), pods[1], corev1.PodFailed); err != nil && !isPodGone(err) {
		t.Fatal(err) // the Job controller may have deleted the pod after the first failure
	}
	failed := m.waitForJobPhase(t, ns, lifecycle.Failed, "GangFailed")
	if status := failed.Annotations[gang.AnnotationStatus]; !strings.Contains(status, "exited with code 3") {
		t.Errorf("the status does not contain the exit code: %s", status)
	}
}

// testAdmissionMetrics checks that the metrics of admission have few labels, and no label with the
// name of an object.
func testAdmissionMetrics(t *testing.T, m *manager) {
	var text bytes.Buffer
	if err := m.Webhook.WriteMetrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`rollcall_admission_requests_total{framework="pytorch",kind="Job",reason="Injected",result="allowed"}`,
		`rollcall_admission_requests_total{framework="unknown",kind="Job",reason="Invalid",result="denied"}`,
		`rollcall_admission_requests_total{framework="pytorch",kind="StatefulSet",reason="Unchanged",result="allowed"}`,
		"rollcall_certificate_expiration_timestamp_seconds",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "rollcall_") && strings.Contains(line, "train") &&
			!strings.Contains(line, "rollcall.training") {
			t.Errorf("a metric has the name of an object as a label: %s", line)
		}
	}
}

// testWithoutManager checks that unrelated objects are not affected while Rollcall is unavailable,
// and that labeled workloads are denied.
func testWithoutManager(t *testing.T, m *manager, ns string) {
	existing := m.createJob(t, ns, newJob("existing", 1))
	m.Stop(t)
	plain := newJob("plain", 1)
	plain.Labels = nil
	m.createJob(t, ns, plain)
	unlabeled := newStatefulSet("plain", 1)
	unlabeled.Labels = nil
	m.createStatefulSet(t, ns, unlabeled)
	if _, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), newJob("train", 1), metav1.CreateOptions{}); err == nil {
		t.Error("a labeled Job was admitted without injection")
	}
	// The controllers of an existing gang must be able to update it.
	patch := []byte(`{"spec":{"suspend":true}}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(
		ctx, existing.Name, types.MergePatchType, patch, metav1.PatchOptions{},
	); err != nil {
		t.Errorf("suspending an existing Job: %v", err)
	}
	m.Start(t)
	m.createJob(t, ns, newJob("train", 1))
}

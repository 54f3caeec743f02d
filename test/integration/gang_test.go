package integration

import (
	"bytes"
	"context"
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
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// TestGangs runs Rollcall's own program beside a real API server and real Job and
// StatefulSet controllers. There are no nodes: pods are made ready by hand.
func TestGangs(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.None})
	m := &manager{installation.New(t, c)}
	m.together(t, map[string]func(*testing.T, *manager, string){
		"JobAdmitted":         testJobAdmitted,
		"DryRun":              testDryRun,
		"Denied":              testDenied,
		"JobLabelledLate":     testJobLabelledLate,
		"JobLife":             testJobLife,
		"JobFails":            testJobFails,
		"StatefulSetUpdates":  testStatefulSetUpdates,
		"StatefulSetLabelled": testStatefulSetLabelled,
		"StatefulSetLife":     testStatefulSetLife,
		"ServiceRestored":     testServiceRestored,
		"ServiceConflict":     testServiceConflict,
		"ServiceShared":       testServiceShared,
		"ServiceOfTheUser":    testServiceOfTheUser,
		"AppliedAgain":        testAppliedAgain,
		"AdmittedWithoutUs":   testAdmittedWithoutUs,
		"Migrated":            testMigrated,
		"MigratedLive":        testMigratedLive,
	})
	t.Run("Metrics", func(t *testing.T) { testMetrics(t, m) })
	t.Run("Down", func(t *testing.T) { testDown(t, m, m.namespace(t)) })
}

func job(name string, ranks int32) *batchv1.Job {
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

// pods waits for the pods of a gang and returns them by rank.
func (m *manager) pods(t *testing.T, ns, name string, ranks int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, "the pods of "+name, func(ctx context.Context) error {
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
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(hostname(a), hostname(b)) })
	return pods
}

func hostname(p corev1.Pod) string { return p.Spec.Hostname }

// setPods does what a kubelet would: it reports a phase for pods.
func (m *manager) setPods(t *testing.T, pods []corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	for _, p := range pods {
		if err := m.setPod(t.Context(), p, phase); err != nil {
			t.Fatalf("reporting the phase of a pod: %v", err)
		}
	}
}

func (m *manager) setPod(ctx context.Context, p corev1.Pod, phase corev1.PodPhase) error {
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	p.Status = corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}}
	if phase != corev1.PodRunning {
		code := int32(0)
		if phase == corev1.PodFailed {
			code = 3
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}}}
	}
	p.ResourceVersion = "" // the scheduler writes to it as well
	_, err := m.Client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{})
	return err
}

// event waits for an Event with a reason.
func (m *manager) event(t *testing.T, ns string, reason gang.Reason) {
	t.Helper()
	m.events(t, ns, reason, 1)
}

// events waits for so many Events with a reason.
func (m *manager) events(t *testing.T, ns string, reason gang.Reason, count int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d Events %s", count, reason), func(ctx context.Context) error {
		list, err := m.Client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var reasons []string
		var n int32
		for _, e := range list.Items {
			if e.Reason == string(reason) {
				n += max(1, ptr.Deref(e.Series, eventsv1.EventSeries{}).Count) // the same is told once, with a count
			}
			reasons = append(reasons, e.Reason)
		}
		if n < count {
			return fmt.Errorf("reasons: %q", reasons)
		}
		return nil
	})
}

// waits says of a phase that ranks are missing. It is Starting where some were ready for long enough.
func waits(phase gang.Phase) bool { return phase == gang.Pending || phase == gang.Starting }

// jobPhase waits until a Job is in a phase, by label, annotation and condition.
func (m *manager) jobPhase(t *testing.T, ns string, phase gang.Phase, condition string) *batchv1.Job {
	t.Helper()
	var j *batchv1.Job
	eventually(t, "phase "+string(phase), func(ctx context.Context) (err error) {
		if j, err = m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{}); err != nil {
			return err
		}
		if phase == gang.Pending && waits(gang.Phase(j.Labels[gang.LabelPhase])) {
			return nil // set at admission
		}
		if j.Labels[gang.LabelPhase] != string(phase) || !strings.Contains(j.Annotations[gang.AnnotationStatus], `"phase":"`+string(phase)+`"`) {
			return fmt.Errorf("label %q, status %q", j.Labels[gang.LabelPhase], j.Annotations[gang.AnnotationStatus])
		}
		return nil
	})
	if phase == gang.Pending {
		return j
	}
	m.event(t, ns, phase.Reason())
	if _, err := m.Cluster.Kubectl(t.Context(), "-n", ns, "wait", "job/train", "--for=condition="+condition, "--timeout=60s"); err != nil {
		t.Errorf("kubectl wait: %v", err)
	}
	return j
}

// testJobLife follows a gang to its good end.
func testJobLife(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, job("train", 2))
	m.jobPhase(t, ns, gang.Pending, "")
	pods := m.pods(t, ns, "train", 2)
	m.setPods(t, pods[:1], corev1.PodRunning)
	eventually(t, "the first rank", func(ctx context.Context) error {
		j, err := m.Client.BatchV1().Jobs(ns).Get(ctx, "train", metav1.GetOptions{})
		if err == nil && ptr.Deref(j.Status.Ready, 0) != 1 {
			err = fmt.Errorf("%d ready", ptr.Deref(j.Status.Ready, 0))
		}
		return err
	})
	m.jobPhase(t, ns, gang.Pending, "")
	m.setPods(t, pods[1:], corev1.PodRunning)
	m.jobPhase(t, ns, gang.Running, "GangRunning")
	m.setPods(t, pods, corev1.PodSucceeded)
	done := m.jobPhase(t, ns, gang.Succeeded, "GangSucceeded")
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

// testJobFails follows one to its bad end.
func testJobFails(t *testing.T, m *manager, ns string) {
	m.createJob(t, ns, job("train", 2))
	pods := m.pods(t, ns, "train", 2)
	m.setPods(t, pods, corev1.PodRunning)
	m.jobPhase(t, ns, gang.Running, "GangRunning")
	m.setPods(t, pods[:1], corev1.PodFailed)
	if err := m.setPod(t.Context(), pods[1], corev1.PodFailed); err != nil && !wentMeanwhile(err) {
		t.Fatal(err) // the Job controller may have taken it away for the first
	}
	failed := m.jobPhase(t, ns, gang.Failed, "GangFailed")
	if status := failed.Annotations[gang.AnnotationStatus]; !strings.Contains(status, "exit code 3") {
		t.Errorf("the status does not say why: %s", status)
	}
}

// testMetrics: admissions are counted by few labels, and none of them a name.
func testMetrics(t *testing.T, m *manager) {
	var text bytes.Buffer
	if err := m.Metrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`rollcall_injections_total{framework="pytorch",kind="Job",reason="Injected",result="allowed"}`,
		`rollcall_injections_total{framework="unknown",kind="Job",reason="Invalid",result="denied"}`,
		`rollcall_injections_total{framework="pytorch",kind="StatefulSet",reason="Unchanged",result="allowed"}`,
		"rollcall_certificate_expiry_seconds",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "rollcall_") && strings.Contains(line, "train") && !strings.Contains(line, "rollcall.training") {
			t.Errorf("a metric is labelled by an object's name: %s", line)
		}
	}
}

// testDown: without Rollcall, what is not ours works as ever; what is ours waits.
func testDown(t *testing.T, m *manager, ns string) {
	existing := m.createJob(t, ns, job("existing", 1))
	m.Stop(t)
	plain := job("plain", 1)
	plain.Labels = nil
	m.createJob(t, ns, plain)
	unlabelled := statefulSet("plain", 1)
	unlabelled.Labels = nil
	m.createStatefulSet(t, ns, unlabelled)
	if _, err := m.Client.BatchV1().Jobs(ns).Create(t.Context(), job("train", 1), metav1.CreateOptions{}); err == nil {
		t.Error("a labelled Job was let through without its injection")
	}
	// The controllers of an existing gang must be able to work.
	patch := []byte(`{"spec":{"suspend":true}}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := m.Client.BatchV1().Jobs(ns).Patch(ctx, existing.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Errorf("suspending an existing Job: %v", err)
	}
	m.Start(t)
	m.createJob(t, ns, job("train", 1))
}

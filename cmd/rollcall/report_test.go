package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// newReportCluster returns the objects of a gang in its second attempt. Rank 1 has failed.
func newReportCluster(t *testing.T, size int32) []runtime.Object {
	t.Helper()
	job := newAdmittedJob(t, size, lifecycle.Failed)
	job.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		gang.DefaultGPUResource: *resource.NewQuantity(1, resource.DecimalSI)}
	text, err := lifecycle.Status{
		Reason: gang.ReasonGangFailed, Message: "Rank 1 failed after 1 restart",
		State: lifecycle.State{
			Phase: lifecycle.Failed, LastTransitionTime: testTime.Add(50 * time.Minute), Restarts: 1,
			LastRestartTime: testTime.Add(20 * time.Minute),
			FirstFailure: &failure.Failure{
				Rank: 1, Pod: "train-1", Node: "node-0", Container: "trainer", ExitCode: 137, Reason: "OOMKilled",
				Message: "step 41\nCUDA out of memory", Time: testTime.Add(50 * time.Minute),
			},
			Seconds:     lifecycle.Seconds{Starting: 60, RanBeforeFailure: 2700, Restarting: 300},
			Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: testTime.Add(21 * time.Minute)},
		},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus] = text
	objects := []runtime.Object{job, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "train.1", Namespace: "team"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "train", UID: job.UID},
		Type:           "Warning", Reason: "GangRestarting",
		Message:       "Restart 1 of 3: rank 0: Error, container trainer exited with code 1",
		LastTimestamp: metav1.NewTime(testTime.Add(20 * time.Minute)),
	}}
	for i := range int(size) {
		pod := newRunningPod(job, i, 0)
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i/8)
		pod.CreationTimestamp = metav1.NewTime(testTime.Add(21 * time.Minute))
		started := metav1.NewTime(testTime.Add(22*time.Minute + time.Duration(i%60)*time.Second))
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = started
		if i == 1 {
			pod.Status.Phase, pod.Status.Conditions = corev1.PodFailed, nil
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "OOMKilled", StartedAt: started, FinishedAt: metav1.NewTime(testTime.Add(50 * time.Minute)),
			}}
		}
		objects = append(objects, pod)
	}
	return objects
}

// writeReport returns the report about the gang train. ROLLCALL_TEST_REPORTS keeps it as a file in a directory.
func writeReport(t *testing.T, name string, objects []runtime.Object) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if dir := os.Getenv("ROLLCALL_TEST_REPORTS"); dir != "" {
		path = filepath.Join(dir, name)
	}
	o := reportOptions{output: path, clock: clocktesting.NewFakePassiveClock(testTime.Add(time.Hour))}
	var stdout strings.Builder
	if err := o.report(t.Context(), newReader(fake.NewClientset(objects...)), "train", &stdout); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%s: %d bytes\n", path, len(text)); stdout.String() != want {
		t.Errorf("output %q, want %q", stdout.String(), want)
	}
	return string(text)
}

func TestReport(t *testing.T) {
	text := writeReport(t, "4.html", newReportCluster(t, 4))
	checkOrder(t, text, []string{
		"Gang train", "Failed", "Rank 1 failed after 1 restart", "1 of at most 3", " 3 ready", " 1 failed",
		"45m in attempts that failed",
		"started or ran 21m", "Then: Restart 1 of 3: rank 0: Error", "restarting 60s, starting 63s, ran 27m",
		"First failure", "OOMKilled", "step 41\nCUDA out of memory",
		`<div class="row"><b>0</b>`, "preparing 61s, running its program 27m", "node-0", "0-3 (4)",
		"MASTER_ADDR", "where the ranks meet", "rollcall.training/port",
		"NoCheckpointVolume", "GangRestarting", "What is not on this page",
	})
}

// TestReportProgress checks that the report of a running gang with a pattern contains its step.
func TestReportProgress(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Running)
	job.Annotations[gang.AnnotationProgressPattern] = `step (?P<step>\d+)/(?P<total>\d+)`
	client := newLogClient("2026-03-01T12:00:00Z step 12/40\n", job, newRunningPod(job, 0, 0))
	var out strings.Builder
	o := reportOptions{output: "-", clock: clocktesting.NewFakePassiveClock(testTime.Add(time.Hour))}
	if err := o.report(t.Context(), newReader(client), "train", &out); err != nil {
		t.Fatal(err)
	}
	checkOrder(t, out.String(), []string{"<dt>Progress</dt><dd>Step 12 of 40 (printed 60m ago)</dd>"})
}

// TestReportOfManyRanks checks that the report of a large gang stays small.
func TestReportOfManyRanks(t *testing.T) {
	text := writeReport(t, "2000.html", newReportCluster(t, 2000))
	t.Logf("2,000 ranks: %d bytes", len(text))
	if len(text) > 150_000 {
		t.Errorf("the report has %d bytes, want at most 150,000", len(text))
	}
	checkOrder(t, text, []string{
		" 1999 ready", "… 1999 all ready", "1960 more ranks are not in the table", "150 more are not",
	})
}

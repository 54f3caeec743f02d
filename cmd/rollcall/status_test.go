package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/inspect"
	"rollcall.training/internal/lifecycle"
)

var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newReader returns a reader of the namespace team.
func newReader(client kubernetes.Interface) inspect.Reader {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	return inspect.Reader{Client: client, Engine: engine, Namespace: "team"}
}

// newAdmittedJob returns the Job train after admission, with a phase. Its training container is
// trainer.
func newAdmittedJob(t *testing.T, size int32, phase lifecycle.Phase) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "train",
			Namespace:         "team",
			UID:               "uid-train",
			CreationTimestamp: metav1.NewTime(testTime.Add(-time.Minute)),
			Labels:            map[string]string{gang.LabelFramework: "pytorch"},
		},
		Spec: batchv1.JobSpec{
			Parallelism: &size,
			Completions: &size,
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "trainer", Image: "train:1"}, {Name: "sidecar", Image: "sidecar:1"}},
				},
			},
		},
	}
	if _, err := injectors.NewEngine(injectors.Builtin(), gang.Config{}).Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	setPhase(t, job, phase)
	return job
}

// setPhase sets the label and the annotation that the controller writes.
func setPhase(t *testing.T, job *batchv1.Job, phase lifecycle.Phase) {
	t.Helper()
	text, err := lifecycle.Status{
		Reason:  phase.Reason(),
		Message: "message of the phase",
		State:   lifecycle.State{Phase: phase, LastTransitionTime: testTime},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Labels[gang.LabelPhase], job.Annotations[gang.AnnotationStatus] = string(phase), text
}

// newRunningPod returns a ready pod whose container trainer has restarted the given number of times.
func newRunningPod(job *batchv1.Job, rank int, restarts int32) *corev1.Pod {
	name := fmt.Sprintf("train-%d", rank)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			Namespace:         "team",
			UID:               types.UID(name),
			CreationTimestamp: metav1.NewTime(testTime),
			Labels: map[string]string{
				gang.LabelGang:                       "train",
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(rank),
			},
			OwnerReferences: []metav1.OwnerReference{
				{Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)},
			},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "trainer", RestartCount: restarts, State: running},
				{Name: "sidecar", State: running},
			},
		},
	}
}

// newStatusOptions returns the default flags with the clock at testTime.
func newStatusOptions() statusOptions {
	return statusOptions{output: outputText, clock: clocktesting.NewFakePassiveClock(testTime)}
}

func TestStatusFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string // part of the error
	}{
		"an unsupported format is reported with the supported ones": {
			args: []string{"-o", "table"},
			want: "use text, json or yaml",
		},
		"a gang in all namespaces is ambiguous": {
			args: []string{"train", "-A"},
			want: "--namespace",
		},
		"the nodes of one gang are in its status": {
			args: []string{"train", "--nodes"},
			want: "--nodes",
		},
		"the nodes are not followed": {
			args: []string{"--nodes", "--watch"},
			want: "--watch",
		},
		"a missing context is reported with its name": {
			args: []string{"--context", "nowhere"},
			want: "nowhere",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"status", "--kubeconfig", filepath.Join("testdata", "kubeconfig.yaml")}, c.args...)
			if _, _, err := runCommand(t, "", args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an error that contains %q", err, c.want)
			}
		})
	}
}

func TestStatusPrints(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Running)
	reader := newReader(fake.NewClientset(job, newRunningPod(job, 0, 0)))
	for name, c := range map[string]struct {
		gangName string
		output   string
		want     []string // parts of the output, in order
		not      string   // absent from the output
	}{
		"a list has one line for each gang": {
			want: []string{"GANG", "train", "pytorch", "Running", "0/3", "0/2", "60s", "message of the phase"},
		},
		"a gang is printed without control sequences if the output is not a terminal": {
			gangName: "train",
			want:     []string{"team/train  pytorch  Running since", "Job train", "#.", "missing"},
			not:      "\x1b",
		},
		"a list in JSON is an array": {
			output: "json",
			want:   []string{"[\n", `"phase": "Running"`},
		},
		"a gang in JSON has ranks": {
			gangName: "train",
			output:   "json",
			want:     []string{`"ranks": [`, `"state": "ready"`, `"state": "missing"`},
		},
		"a gang in YAML has the fields of JSON": {
			gangName: "train",
			output:   "yaml",
			want:     []string{"ranks:\n", "  state: ready\n", "  state: missing\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newStatusOptions()
			if c.output != "" {
				o.output = c.output
			}
			var stdout, stderr strings.Builder
			if err := o.runStatus(t.Context(), reader, c.gangName, &stdout, &stderr); err != nil {
				t.Fatal(err)
			}
			checkOrder(t, stdout.String(), c.want)
			if c.not != "" && strings.Contains(stdout.String(), c.not) {
				t.Errorf("output contains %q:\n%s", c.not, stdout.String())
			}
		})
	}
}

func TestStatusWithoutGangs(t *testing.T) {
	reader := newReader(fake.NewClientset())
	o := newStatusOptions()
	var stdout, stderr strings.Builder
	if err := o.runStatus(t.Context(), reader, "", &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "" || !strings.Contains(stderr.String(), "no gangs found in namespace team") {
		t.Errorf("output %q, standard error %q", stdout.String(), stderr.String())
	}
	o.output = outputJSON
	if err := o.runStatus(t.Context(), reader, "", &stdout, &stderr); err != nil || stdout.String() != "[]\n" {
		t.Errorf("output %q and error %v, want an empty array", stdout.String(), err)
	}
}

// TestStatusNodes checks what status --nodes prints with and without nodes.
func TestStatusNodes(t *testing.T) {
	job := newAdmittedJob(t, 2, lifecycle.Running)
	for name, c := range map[string]struct {
		failure                *failure.Failure
		output                 string
		wantStdout, wantStderr string
	}{
		"no node":         {output: outputText, wantStderr: "no gang in namespace team avoids a node"},
		"no node in JSON": {output: outputJSON, wantStdout: "[]"},
		"a lost node": {
			failure: &failure.Failure{Node: "node-a", Reason: failure.ReasonNodeLost, Time: testTime},
			output:  outputText, wantStdout: "node-a  -        team       train  -        0s   NodeLost",
		},
		"a lost node in JSON": {
			failure: &failure.Failure{Node: "node-a", Reason: failure.ReasonNodeLost, Time: testTime},
			output:  outputJSON, wantStdout: `"node": "node-a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Running, FirstFailure: c.failure}}
			if err := status.WriteTo(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			o := newStatusOptions()
			o.nodes, o.output = true, c.output
			var stdout, stderr strings.Builder
			if err := o.runStatus(t.Context(), newReader(fake.NewClientset(job)), "", &stdout, &stderr); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stdout.String(), c.wantStdout) || !strings.Contains(stderr.String(), c.wantStderr) {
				t.Errorf("output %q, standard error %q", stdout.String(), stderr.String())
			}
		})
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/roster"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// liveJob is a Job in a cluster, admitted, with a phase.
func liveJob(t *testing.T, size int32, phase gang.Phase) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team", UID: "uid-train", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
			Labels: map[string]string{gang.LabelFramework: "pytorch"}},
		Spec: batchv1.JobSpec{Parallelism: &size, Completions: &size, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer"}, {Name: "sidecar"}}}}},
	}
	if _, err := injectors.New(injectors.Builtin(), gang.Config{}).Admit(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	enter(t, job, phase)
	return job
}

func enter(t *testing.T, job *batchv1.Job, phase gang.Phase) {
	t.Helper()
	text, err := gang.Status{Phase: phase, Reason: phase.Reason(), Message: "as it is", Since: noon}.Text()
	if err != nil {
		t.Fatal(err)
	}
	job.Labels[gang.LabelPhase], job.Annotations[gang.AnnotationStatus] = string(phase), text
}

// livePod is a pod of it whose trainer runs for the nth time, from 0.
func livePod(job *batchv1.Job, rank int, restarts int32) *corev1.Pod {
	name := fmt.Sprintf("train-%d", rank)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon),
			Labels:          map[string]string{gang.LabelGang: "train", batchv1.JobCompletionIndexAnnotation: fmt.Sprint(rank)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "trainer", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

func testOptions() statusOptions {
	return statusOptions{clock: clocktesting.NewFakePassiveClock(noon)}
}

func TestStatusFlags(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"format":          {"the known one is named", []string{"-o", "yaml"}, "use json"},
		"all of one":      {"two gangs may have one name", []string{"train", "-A"}, "--namespace"},
		"watch all":       {"it is kubectl that can", []string{"-w"}, "kubectl get jobs -L rollcall.training/phase --watch"},
		"no such context": {"the cluster is looked for as kubectl does", []string{"--context", "nowhere"}, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"status", "--kubeconfig", filepath.Join("testdata", "kubeconfig.yaml")}, c.args...)
			if _, _, err := run(t, "", args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want one with %q", c.reason, err, c.want)
			}
		})
	}
}

func TestStatusPrints(t *testing.T) {
	job := liveJob(t, 2, gang.Running)
	r := roster.Reader{Client: fake.NewClientset(job, livePod(job, 0, 0)), Namespace: "team"}
	for name, c := range map[string]struct {
		reason string
		gang   string
		json   bool
		want   []string
		not    string
	}{
		"list": {reason: "a line each", want: []string{"GANG", "train", "pytorch", "Running", "0/3", "0/2", "60s", "as it is"}},
		"gang": {reason: "no colours and no control sequences where there is no terminal", gang: "train",
			want: []string{"team/train  pytorch  Running since", "Job train", "#.", "no pod"}, not: "\x1b"},
		"list as JSON": {reason: "an array", json: true, want: []string{"[\n", `"phase": "Running"`}},
		"gang as JSON": {reason: "with its ranks", gang: "train", json: true, want: []string{`"ranks": [`, `"state": "ready"`, `"state": "no pod"`}},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			if c.json {
				o.output = "json"
			}
			var out, errs strings.Builder
			if err := o.run(t.Context(), r, c.gang, &out, &errs); err != nil {
				t.Fatal(err)
			}
			rest := out.String()
			for _, w := range c.want {
				var ok bool
				if _, rest, ok = strings.Cut(rest, w); !ok {
					t.Errorf("%s: %q is missing, or out of order, in\n%s", c.reason, w, out.String())
					break
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("%s: %q is in\n%s", c.reason, c.not, out.String())
			}
		})
	}
}

func TestStatusOfNothing(t *testing.T) {
	r := roster.Reader{Client: fake.NewClientset(), Namespace: "team"}
	o := testOptions()
	var out, errs strings.Builder
	if err := o.run(t.Context(), r, "", &out, &errs); err != nil {
		t.Fatal(err)
	}
	if out.String() != "" || !strings.Contains(errs.String(), "no gangs in the namespace team") {
		t.Errorf("printed %q, said %q", out.String(), errs.String())
	}
	o.output = "json"
	if err := o.run(t.Context(), r, "", &out, &errs); err != nil || out.String() != "[]\n" {
		t.Errorf("programs read an empty array: printed %q, error %v", out.String(), err)
	}
}

func TestStatusWatch(t *testing.T) {
	for name, c := range map[string]struct {
		end  gang.Phase
		fail bool
	}{
		"succeeded": {gang.Succeeded, false},
		"failed":    {gang.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			job := liveJob(t, 2, gang.Running)
			client := fake.NewClientset(job, livePod(job, 0, 0), livePod(job, 1, 0))
			var out output
			var changing sync.WaitGroup
			changing.Go(func() {
				out.await(t, "\n")
				awaitWatch(t, client, "jobs")
				ended := job.DeepCopy()
				enter(t, ended, c.end)
				_, _ = client.BatchV1().Jobs("team").Update(t.Context(), ended, metav1.UpdateOptions{})
			})
			o := testOptions()
			o.watch, o.output = true, "json"
			err := o.run(t.Context(), roster.Reader{Client: client, Namespace: "team"}, "train", &out, nil)
			changing.Wait()
			if (err != nil) != c.fail {
				t.Errorf("the exit code is the gang's: error %v", err)
			}
			var phases []gang.Phase
			for line := range strings.Lines(out.text.String()) {
				var g roster.Gang
				if err := json.Unmarshal([]byte(line), &g); err != nil {
					t.Fatalf("a line each: %v", err)
				}
				phases = append(phases, g.Phase)
			}
			if diff := cmp.Diff([]gang.Phase{gang.Running, c.end}, phases); diff != "" {
				t.Errorf("one line for each change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScreen(t *testing.T) {
	for name, c := range map[string]struct {
		reason, text string
		height       int
		first        bool
		want         string
	}{
		"first": {reason: "what was there goes", text: "a\nb\n", height: 24, first: true, want: "\x1b[2J\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"},
		"again": {reason: "written over, without a flicker", text: "a\n", height: 24, want: "\x1b[Ha\x1b[K\n\x1b[J"},
		"tall": {reason: "the top stays in sight, and what is left out is said", text: "1\n2\n3\n4\n5\n6\n", height: 5,
			want: "\x1b[H1\x1b[K\n2\x1b[K\n3\x1b[K\n… 3 more lines\x1b[K\n\x1b[J"},
		"unknown height": {reason: "all of it", text: "1\n2\n3\n", want: "\x1b[H1\x1b[K\n2\x1b[K\n3\x1b[K\n\x1b[J"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, string(screen([]byte(c.text), c.height, c.first))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestFindCompletedRanks checks which ranks completed, and which are lost, of those that a Job counts as
// completed.
func TestFindCompletedRanks(t *testing.T) {
	pods := []corev1.Pod{
		podtest.RankPod(0, podtest.Terminated(0, 20, false)),
		podtest.RankPod(1, nil),
		podtest.RankPod(5, func(p *corev1.Pod) {
			podtest.Terminated(0, 20, false)(p)
			p.Labels[gang.LabelAttempt] = "0"
		}),
		podtest.RankPod(4, func(p *corev1.Pod) {
			podtest.Terminated(0, 20, false)(p)
			delete(p.Labels, gang.LabelAttempt)
		}),
	}
	for name, c := range map[string]struct {
		completedIndexes string
		known            sets.Set[int32]
		want             []int32
		wantLost         int32
	}{
		"no rank is completed":                   {},
		"completed rank has its pod":             {completedIndexes: "0", want: []int32{0}},
		"completed rank has no pod":              {completedIndexes: "0,3", want: []int32{0}, wantLost: 1},
		"completed rank without a pod was known": {completedIndexes: "0,3", known: sets.New[int32](3), want: []int32{0, 3}},
		"several ranks":                          {completedIndexes: "0,2-4", want: []int32{0}, wantLost: 3},
		"pod is of the attempt before":           {completedIndexes: "5", wantLost: 1},
		"pod without a label exited before":      {completedIndexes: "4", wantLost: 1},
		"completed rank runs again":              {completedIndexes: "1", wantLost: 1},
		"completed rank runs again, and all others have completed": {
			completedIndexes: "0-5", known: sets.New[int32](2, 3, 4, 5), want: []int32{0, 2, 3, 4, 5},
		},
		"indexes above the size of the Job": {completedIndexes: "6-1000000000"},
		"text that cannot be parsed":        {completedIndexes: "a-b,,-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{Pods: pods, Workload: gang.Workload{Job: &batchv1.Job{
				Spec:   batchv1.JobSpec{Parallelism: ptr.To[int32](6)},
				Status: batchv1.JobStatus{CompletedIndexes: c.completedIndexes},
			}}}
			context := failure.Context{Attempt: 1, AttemptStartTime: podtest.At(25), ResumeTime: podtest.At(25)}
			got, lost := w.findCompletedRanks(context, c.known, time.Time{})
			if diff := cmp.Diff(c.want, got); diff != "" || lost != c.wantLost {
				t.Errorf("%d lost ranks, want %d; completed (-want +got):\n%s", lost, c.wantLost, diff)
			}
		})
	}
}

// TestFindCompletedRanksOfFirstAttempt checks that a success on a node whose clock is behind counts, although it seems
// to precede the creation of the Job: there is no earlier attempt.
func TestFindCompletedRanksOfFirstAttempt(t *testing.T) {
	pod := podtest.RankPod(1, podtest.Terminated(0, 20, false))
	delete(pod.Labels, gang.LabelAttempt)
	w := WorkloadEvidence{Pods: []corev1.Pod{pod}, Workload: gang.Workload{Job: &batchv1.Job{
		Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2)}, Status: batchv1.JobStatus{CompletedIndexes: "1"},
	}}}
	got, lost := w.findCompletedRanks(failure.Context{AttemptStartTime: podtest.At(25)}, nil, time.Time{})
	if diff := cmp.Diff([]int32{1}, got); diff != "" || lost != 0 {
		t.Errorf("%d lost ranks; completed (-want +got):\n%s", lost, diff)
	}
}

// TestFindReplacedRanks checks that a completed rank is lost if its Job replaced its pod after all ranks were ready.
// The Job does not replace another rank that failed then.
func TestFindReplacedRanks(t *testing.T) {
	replacement := podtest.RankPod(1, func(p *corev1.Pod) { p.CreationTimestamp.Time = podtest.At(40) })
	for name, c := range map[string]struct {
		readyTime time.Time
		wantLost  int32
	}{
		"the pod was created after all ranks were ready":  {readyTime: podtest.At(37), wantLost: 1},
		"the clock of the manager may be behind":          {readyTime: podtest.At(38)},
		"the ranks were ready after the pod was created":  {readyTime: podtest.At(60)},
		"it is not known when all ranks had become ready": {},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []corev1.Pod{podtest.RankPod(0, podtest.Terminated(1, 30, true)), replacement}
			w := WorkloadEvidence{Pods: pods, Workload: gang.Workload{Job: &batchv1.Job{
				Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](2)}, Status: batchv1.JobStatus{CompletedIndexes: "1"},
			}}}
			if _, lost := w.findCompletedRanks(failure.Context{Attempt: 1}, nil, c.readyTime); lost != c.wantLost {
				t.Errorf("%d lost ranks, want %d", lost, c.wantLost)
			}
		})
	}
}

func TestFormatIndexes(t *testing.T) {
	for want, indexes := range map[string][]int32{
		"none": nil, "0": {0}, "0,3-5": {0, 3, 4, 5}, "1-2,4": {1, 2, 4},
	} {
		got := formatIndexes(indexes)
		if got != want {
			t.Errorf("%v: %q, want %q", indexes, got, want)
		}
		if diff := cmp.Diff(indexes, parseIndexes(got, 10)); diff != "" {
			t.Errorf("%s is parsed differently (-want +got):\n%s", got, diff)
		}
	}
}

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
)

// confirmed is a change of a deleted pod whose containers are gone, and that only the finalizer of the
// Job controller keeps.
func confirmed(p *corev1.Pod) {
	podtest.Drained(p)
	p.DeletionGracePeriodSeconds = ptr.To[int64](0)
}

// TestObserveTermination checks which pods the next attempt waits for.
func TestObserveTermination(t *testing.T) {
	now := podtest.At(20)
	for name, c := range map[string]struct {
		pods           []corev1.Pod
		terminating    int32 // as the Job counts them
		wantTerminated bool
		wantTimeout    time.Time
		ignoresLost    bool
	}{
		"the node of a deleted pod is lost": {
			pods: []corev1.Pod{podtest.RankPod(0, lost)}, terminating: 1, ignoresLost: true, wantTerminated: true,
		},
		"the node of a deleted pod is lost, and the gang waits for it": {
			pods: []corev1.Pod{podtest.RankPod(0, lost)}, terminating: 1,
			wantTimeout: podtest.At(10 + 30).Add(TerminationTimeout),
		},
		"the node of a pod is lost that nobody has deleted": {
			pods: []corev1.Pod{podtest.RankPod(0, podtest.OnLostNode(5))}, ignoresLost: true,
		},
		"a pod runs": {pods: []corev1.Pod{podtest.RankPod(0, nil)}},
		"the grace period of a deleted pod has not ended": {
			pods: []corev1.Pod{podtest.RankPod(0, podtest.Drained)}, terminating: 1,
			wantTimeout: podtest.At(10 + 30).Add(TerminationTimeout),
		},
		"only a finalizer keeps a deleted pod": {
			pods: []corev1.Pod{podtest.RankPod(0, confirmed)}, terminating: 1, wantTerminated: true,
		},
		"the Job counts a pod that the cache does not contain": {terminating: 1},
		"the grace period of one of two deleted pods has not ended": {
			pods: []corev1.Pod{podtest.RankPod(0, confirmed), podtest.RankPod(1, podtest.Drained)}, terminating: 2,
			wantTimeout: podtest.At(10 + 30).Add(TerminationTimeout),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := observeTermination(c.terminating, c.pods, now, true, c.ignoresLost)
			if got.allTerminated != c.wantTerminated || !got.nextTimeout.Equal(c.wantTimeout) {
				t.Errorf("terminated %v, timeout %s; want %v, %s",
					got.allTerminated, got.nextTimeout, c.wantTerminated, c.wantTimeout)
			}
		})
	}
}

// TestLostPodIsStuck checks that a terminating pod on a lost node is stuck before its grace period ends.
func TestLostPodIsStuck(t *testing.T) {
	w := WorkloadEvidence{Workload: gang.Workload{Job: &batchv1.Job{}}, Pods: []corev1.Pod{podtest.RankPod(0, lost)}}
	if stuck, _ := w.findStuckPod(Restarting, podtest.At(11)); stuck == nil {
		t.Error("no pod is stuck")
	}
	if stuck, _ := w.findStuckPod(Running, podtest.At(11)); stuck != nil {
		t.Errorf("pod %s is stuck, although nobody waits for it", stuck.Name)
	}
}

// TestHeldPodIsStuck checks that a pod that a finalizer keeps is stuck only if its workload waits for its deletion.
func TestHeldPodIsStuck(t *testing.T) {
	held := podtest.RankPod(0, confirmed)
	held.Status.Phase = corev1.PodFailed
	late := podtest.At(10 + 30).Add(StuckPodGracePeriod)
	for name, c := range map[string]struct {
		workload  gang.Workload
		wantStuck bool
	}{
		"a StatefulSet waits":  {workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{}}, wantStuck: true},
		"a Job replaces a pod": {workload: gang.Workload{Job: &batchv1.Job{}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{Workload: c.workload, Pods: []corev1.Pod{held}}
			if stuck, _ := w.findStuckPod(Pending, late); (stuck != nil) != c.wantStuck {
				t.Errorf("a pod is stuck: %t, want %t", stuck != nil, c.wantStuck)
			}
		})
	}
}

// lost is a change of a pod that is being deleted and whose node is lost.
func lost(pod *corev1.Pod) {
	podtest.Drained(pod)
	podtest.OnLostNode(5)(pod)
}

// TestConfirmedDeletionIsNotStuck checks that a pod that nobody waits for is not reported as stuck.
func TestConfirmedDeletionIsNotStuck(t *testing.T) {
	pods := []corev1.Pod{podtest.RankPod(0, confirmed)}
	late := podtest.At(10 + 30).Add(StuckPodGracePeriod)
	w := WorkloadEvidence{Workload: gang.Workload{Job: &batchv1.Job{}}, Pods: pods}
	if stuck, _ := w.findStuckPod(Restarting, late); stuck != nil {
		t.Errorf("pod %s is stuck", stuck.Name)
	}
	w.Job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	if stuck, _ := w.findStuckPod(Restarting, late); stuck == nil {
		t.Error("no pod is stuck, although the Job waits for the deletion of the pod")
	}
}

// TestCountOriginalPods checks that only pods of Jobs count that run, and that existed before all ranks were ready.
func TestCountOriginalPods(t *testing.T) {
	pods := []corev1.Pod{
		podtest.RankPod(0, nil), podtest.RankPod(1, podtest.Drained), podtest.RankPod(2, podtest.Terminated(1, 5, false)),
		podtest.RankPod(3, func(p *corev1.Pod) { p.CreationTimestamp.Time = podtest.At(40) }),
	}
	pods[2].Status.Phase = corev1.PodFailed
	for name, c := range map[string]struct {
		ready time.Time
		want  int32
	}{
		"a pod was created after all ranks were ready": {ready: podtest.At(20), want: 1},
		"not all ranks were ready yet":                 {want: 2},
	} {
		w := WorkloadEvidence{Workload: gang.Workload{Job: &batchv1.Job{}}, Pods: pods}
		if got := w.countOriginalPods(c.ready); got != c.want {
			t.Errorf("%s: %d pods, want %d", name, got, c.want)
		}
	}
}

// TestFindPodsToUntrack checks that so many deleted pods are untracked that a Job cannot complete by the others.
func TestFindPodsToUntrack(t *testing.T) {
	pods := []corev1.Pod{
		podtest.RankPod(3, podtest.Drained), podtest.RankPod(0, podtest.Tracked), podtest.RankPod(1, podtest.Deleted(9)),
		podtest.RankPod(2, podtest.Drained), podtest.RankPod(4, podtest.Drained),
	}
	rule := func(indexes *string, count *int32) []batchv1.SuccessPolicyRule {
		return []batchv1.SuccessPolicyRule{{SucceededIndexes: indexes, SucceededCount: count}}
	}
	for name, c := range map[string]struct {
		rules        []batchv1.SuccessPolicyRule
		isLive       bool // no pod is drained
		isRestarting bool
		completed    string
		want         []int32
	}{
		"a Job without a policy completes with all indexes":       {want: []int32{2}},
		"pods that run or that the Job has counted stay":          {isLive: true},
		"a gang restarts, and not all ranks can succeed any more": {isRestarting: true},
		"a gang restarts, and all ranks were drained only now":    {isRestarting: true, completed: "1", want: []int32{2}},
		"a gang restarts, and a rule needs one index": {
			isRestarting: true, rules: rule(ptr.To("3"), nil), want: []int32{3},
		},
		"a rule needs all of its indexes": {rules: rule(ptr.To("3-4"), nil), want: []int32{3}},
		"a rule needs one of its indexes": {
			rules: rule(ptr.To("3-4"), ptr.To[int32](1)), want: []int32{3, 4},
		},
		"a rule needs 4 of 5 ranks":                            {rules: rule(nil, ptr.To[int32](4)), want: []int32{2, 3}},
		"a rule needs one rank":                                {rules: rule(nil, ptr.To[int32](1)), want: []int32{2, 3, 4}},
		"a rule needs an index that nobody deletes":            {rules: rule(ptr.To("0"), nil), want: []int32{2}},
		"a rule names indexes beyond the size, and needs them": {rules: rule(ptr.To("4-9"), nil), want: []int32{4}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{
				Spec:   batchv1.JobSpec{Parallelism: ptr.To[int32](5)},
				Status: batchv1.JobStatus{CompletedIndexes: c.completed},
			}
			if c.rules != nil {
				job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: c.rules}
			}
			var got []int32
			pods := pods
			if c.isLive {
				pods = pods[1:3]
			}
			for _, pod := range findPodsToUntrack(gang.Workload{Job: job}, pods, c.isRestarting) {
				got = append(got, gang.PodIndex(pod))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("indexes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartialReadiness checks that a gang is Starting only after a rank has waited for five minutes, and that
// time alone leads to a pass then.
func TestPartialReadiness(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	podSince := func(ready corev1.ConditionStatus, since time.Duration) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}}}
	}
	for name, c := range map[string]struct {
		pods     []corev1.Pod
		want     bool
		wantTime time.Time
	}{
		"no pod": {},
		"no pod is ready": {
			pods: []corev1.Pod{podSince(corev1.ConditionFalse, time.Hour)},
		},
		"pods have been ready for seconds": {
			pods: []corev1.Pod{
				podSince(corev1.ConditionTrue, 10*time.Second), podSince(corev1.ConditionTrue, time.Minute),
			},
			wantTime: now.Add(4 * time.Minute),
		},
		"a pod has been ready for five minutes": {
			pods: []corev1.Pod{
				podSince(corev1.ConditionTrue, 10*time.Second), podSince(corev1.ConditionTrue, 5*time.Minute),
			},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, next := observePartialReadiness(c.pods, now)
			if got != c.want || !next.Equal(c.wantTime) {
				t.Errorf("got %v and the next check at %v, want %v and %v", got, next, c.want, c.wantTime)
			}
		})
	}
}

// TestScaledDownPodsAreIgnored checks that the pods of an elastic Job do not fail when its user
// scales it down.
func TestScaledDownPodsAreIgnored(t *testing.T) {
	pods := []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, nil)}
	for size, want := range map[int32]int{0: 0, 1: 1, 2: 2} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: &size}}
		w := WorkloadEvidence{Workload: gang.Workload{Job: job}, Pods: pods}
		if got := w.excludeReplacedPods(nil); len(got) != want {
			t.Errorf("Job with parallelism %d: %d pods can fail, want %d", size, len(got), want)
		}
	}
}

// TestExcludeNextAttempt checks which pods of a suspended Job belong to the attempt that starts when it is resumed.
func TestExcludeNextAttempt(t *testing.T) {
	started := ptr.To(metav1.NewTime(podtest.At(20)))
	for name, c := range map[string]struct {
		pod   corev1.Pod
		start *metav1.Time
		want  int
	}{
		"deleted after the start":          {pod: podtest.RankPod(0, podtest.Deleted(25)), start: started},
		"deleted by a suspension before":   {pod: podtest.RankPod(0, podtest.Deleted(10)), start: started, want: 1},
		"deleted, and the Job not started": {pod: podtest.RankPod(0, podtest.Deleted(25)), want: 1},
		"not deleted":                      {pod: podtest.RankPod(0, nil), start: started},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{Status: batchv1.JobStatus{StartTime: c.start}}
			w := WorkloadEvidence{Workload: gang.Workload{Job: job}, Pods: []corev1.Pod{c.pod}}
			s := State{Phase: Suspended, Bookkeeping: Bookkeeping{Attempt: 1}}
			if got := len(w.excludeNextAttempt(s)); got != c.want {
				t.Errorf("%d pods are left, want %d", got, c.want)
			}
			s.Attempt = 2
			if got := len(w.excludeNextAttempt(s)); got != 1 {
				t.Error("a pod of the attempt before is left out")
			}
		})
	}
}

// TestHasFormerPods checks which workloads have pods that run on while another member is suspended.
func TestHasFormerPods(t *testing.T) {
	suspended := podtest.At(20)
	for name, c := range map[string]struct {
		start  *metav1.Time
		change func(*corev1.Pod)
		want   bool
	}{
		"the Job was started before": {start: ptr.To(metav1.NewTime(podtest.At(10))), want: true},
		"the Job was started since":  {start: ptr.To(metav1.NewTime(podtest.At(30)))},
		"the Job is not started":     {},
		"the pod of the Job has succeeded": {
			start: ptr.To(metav1.NewTime(podtest.At(10))), change: podtest.Terminated(0, 15, false),
		},
		"the pod of the Job is deleted": {start: ptr.To(metav1.NewTime(podtest.At(10))), change: podtest.Drained},
		"the Job has replaced its pod since": {
			start:  ptr.To(metav1.NewTime(podtest.At(10))),
			change: func(p *corev1.Pod) { p.CreationTimestamp.Time = podtest.At(30) },
			want:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := WorkloadEvidence{
				Workload: gang.Workload{Job: &batchv1.Job{Status: batchv1.JobStatus{StartTime: c.start}}},
				Pods:     []corev1.Pod{podtest.RankPod(0, c.change)},
			}
			if got := w.hasFormerPods(suspended); got != c.want {
				t.Errorf("former pods run: %t, want %t", got, c.want)
			}
		})
	}
	for seconds, want := range map[int]bool{10: true, 30: false} {
		w := WorkloadEvidence{
			Workload: gang.Workload{StatefulSet: &appsv1.StatefulSet{}},
			Pods: []corev1.Pod{podtest.RankPod(0, func(p *corev1.Pod) {
				p.CreationTimestamp.Time = podtest.At(seconds)
			})},
		}
		if got := w.hasFormerPods(suspended); got != want {
			t.Errorf("a pod of a StatefulSet from second %d is a former pod: %t, want %t", seconds, got, want)
		}
	}
}

package controller

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// uncountedPods is the number of pods that the Job controller counts at a time
// (kubernetes pkg/controller/job, MaxUncountedPods).
const uncountedPods = 500

// BenchmarkObserveMember reports the time for each pod of observing a member, which must not depend on the
// number of pods.
func BenchmarkObserveMember(b *testing.B) {
	terminate := func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(testStartTime.Add(30 * time.Second)))
		p.DeletionGracePeriodSeconds = ptr.To[int64](30)
	}
	for name, change := range map[string]func(*corev1.Pod){"running": func(*corev1.Pod) {}, "terminating": terminate} {
		for _, ranks := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, ranks), func(b *testing.B) {
				m, pods := newObservedJob(b, ranks, change)
				g := &observedGang{Roster: roster.Roster[member]{Members: []member{m}}}
				evidence := lifecycle.Evidence{
					Members: lifecycle.ObserveMembers(m.Result.Gang, g.observeWorkload), Now: testStartTime,
					Workloads: []lifecycle.WorkloadEvidence{{Workload: m.Workload, Gang: m.Result.Gang, Pods: pods}},
				}
				state := lifecycle.State{Phase: lifecycle.Running, LastTransitionTime: testStartTime}
				b.ReportAllocs()
				for b.Loop() {
					if got := state.Observe(evidence, &lifecycle.Memory{}); got.PodCount != ranks {
						b.Fatalf("%d pods, want %d", got.PodCount, ranks)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ranks), "ns/pod")
			})
		}
	}
}

// newObservedJob returns a Job of a gang and its ready pods in the form of the cache, after a change. The Job
// lists as many pods that it has not counted as the Job controller does.
func newObservedJob(b *testing.B, ranks int, change func(*corev1.Pod)) (member, []corev1.Pod) {
	b.Helper()
	job := admitObject(b, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(ranks)), Completions: ptr.To(int32(ranks)), Template: *podTemplate.DeepCopy(),
		},
	}).(*batchv1.Job)
	result, err := testEngine.Describe(gang.Workload{Job: job})
	if err != nil {
		b.Fatal(err)
	}
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	var pods []corev1.Pod
	for i := range ranks {
		pod := newLargePod(i)
		pod.UID = types.UID(fmt.Sprintf("12345678-1234-1234-1234-%012d", i))
		pod.Labels[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(i)
		pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
		change(pod)
		pods = append(pods, *trimPod(pod))
		if i < uncountedPods {
			failed := &job.Status.UncountedTerminatedPods.Failed
			*failed = append(*failed, pod.UID)
		}
	}
	return member{Member: roster.Member{Workload: gang.Workload{Job: job}, Result: &result}}, pods
}

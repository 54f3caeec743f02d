package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// deleteRanks deletes consecutive ranks of a gang with one request.
func (r *testGang) deleteRanks(first, count int) {
	r.t.Helper()
	var indexes []string
	for i := range count {
		indexes = append(indexes, strconv.Itoa(first+i))
	}
	err := r.Client.CoreV1().Pods(r.ns).DeleteCollection(r.t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: batchv1.JobCompletionIndexAnnotation + " in (" + strings.Join(indexes, ",") + ")"})
	if err != nil {
		r.t.Fatal(err)
	}
}

// logFailedPodCount logs the number of failed pods in the Job's status.
func (r *testGang) logFailedPodCount(begin time.Time) {
	all, err := r.getWorkloads(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	s := lifecycle.ReadStatus(all[0])
	r.t.Logf("%s with %d restarts after %.1f s; the Job counts %d failed pods",
		s.Phase, s.Restarts+s.Disruptions, time.Since(begin).Seconds(), all[0].Job.Status.Failed)
}

// testRestartManyPodsDeleted checks that ranks that are deleted together cause one restart. The
// restart of the gang must not take longer for many pods than for one.
func testRestartManyPodsDeleted(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(8))
	before, begin := r.listActivePods(), time.Now()
	r.deleteRanks(0, 8)
	r.waitForPhase(lifecycle.Running, 1)
	r.logFailedPodCount(begin)
	r.checkPodsReplaced(before, "1")
	r.checkPhaseStable(2 * time.Second)
}

// testRestartRepeatedDeletions checks that a gang survives more deleted pods than 6, the API
// server's default backoffLimit.
func testRestartRepeatedDeletions(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(15, gang.AnnotationMaxRestarts, "5"))
	for incident := range int32(3) {
		begin := time.Now()
		r.deleteRanks(5*int(incident), 5) // other ranks each time, whose back-off does not depend on earlier deletions
		r.waitForPhase(lifecycle.Running, incident+1)
		r.logFailedPodCount(begin)
	}
	r.checkPhaseStable(2 * time.Second)
	for name := range r.listActivePods() {
		r.succeedPod(r.getActivePod(name))
	}
	r.waitForPhase(lifecycle.Succeeded, 3)
	// The Job's count of the 15 pods depends on how soon it was suspended.
	if all, err := r.getWorkloads(t.Context()); err != nil || *all[0].Job.Spec.BackoffLimit != gang.UnlimitedBackoffLimit {
		t.Errorf("%v, %v", all[0].Job.Spec.BackoffLimit, err)
	}
}

// testRestartDeletionsExceedMaxDisruptions checks that a gang fails after max-disruptions incidents.
func testRestartDeletionsExceedMaxDisruptions(t *testing.T, m *manager, ns string) {
	r := m.startGang(t, ns, newTrainingWorkload(4, gang.AnnotationMaxDisruptions, "1"))
	r.deleteRanks(0, 4)
	r.waitForPhase(lifecycle.Running, 1)
	second := r.listActivePods()
	r.deleteRanks(0, 1)
	s := r.waitForPhase(lifecycle.Failed, 1)
	if c := s.FirstFailure; c == nil || c.Rank != 0 || c.Reason != failure.ReasonPodDeleted ||
		c.Pod != second["worker-0"].Name {
		t.Errorf("the first failure is %+v", s.FirstFailure)
	}
	r.waitForJobFailure("train")
	r.waitForPodsGone("worker")
	r.checkPhaseStable(time.Second)
}

// testRestartUserBackoffLimit checks that a user's backoffLimit is kept and also limits the
// restarts, although the Job then counts failed pods per index.
func testRestartUserBackoffLimit(t *testing.T, m *manager, ns string) {
	w := newTrainingWorkload(4)
	w.Job.Spec.BackoffLimit = ptr.To[int32](1)
	r := m.startGang(t, ns, w)
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.waitForPhase(lifecycle.Running, 1)
	r.failContainer(r.getActivePod("worker-0"), 1)
	r.waitForPhase(lifecycle.Failed, 1)
	if j := r.waitForJobFailure("train"); *j.Spec.BackoffLimit != 1 || *j.Spec.BackoffLimitPerIndex != 108 {
		t.Errorf("the limits are %d, and %d for each rank", *j.Spec.BackoffLimit, *j.Spec.BackoffLimitPerIndex)
	}
}

// testRestartSetOnDelete checks that a gang runs on while its user replaces the pods of a StatefulSet with OnDelete,
// and restarts if a pod is deleted afterward. Before Kubernetes 1.37, the status of such a set keeps two revisions.
func testRestartSetOnDelete(t *testing.T, m *manager, ns string) {
	set := newStatefulSet("train", 2)
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	r := m.startGang(t, ns, gang.Workload{StatefulSet: set})
	const patch = `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`
	if _, err := m.Client.AppsV1().StatefulSets(ns).Patch(
		t.Context(), "train", types.MergePatchType, []byte(patch), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	for name, p := range r.listActivePods() {
		r.deletePod(p)
		wait.For(t, "another pod of "+name, func(context.Context) error {
			if now, ok := r.listActivePods()[name]; !ok || now.UID == p.UID || now.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", now.Status.Phase)
			}
			return nil
		})
	}
	time.Sleep(4 * time.Second) // the controller may have observed only the first pods
	r.waitForPhase(lifecycle.Running, 0)
	r.checkPhaseStable(2 * time.Second)
	before := r.listActivePods()
	r.deletePod(before["worker-1"])
	if s := r.waitForPhase(lifecycle.Running, 1); s.Disruptions != 1 {
		t.Errorf("the status is %+v", s)
	}
	r.checkPodsReplaced(before, "")
}

func (r *testGang) deletePod(p corev1.Pod) {
	r.t.Helper()
	if err := r.Client.CoreV1().Pods(r.ns).Delete(r.t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

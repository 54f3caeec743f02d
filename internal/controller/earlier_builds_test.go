package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/recorded"
)

// TestGangsOfEarlierBuilds checks that gangs continue from what an earlier build wrote: a restart completes
// after its back-off, and nothing is written to gangs that are suspended or have finished.
func TestGangsOfEarlierBuilds(t *testing.T) {
	builds, err := recorded.Builds()
	if err != nil || len(builds) == 0 {
		t.Fatalf("%d recorded builds, %v", len(builds), err)
	}
	for _, build := range builds {
		t.Run(build.Commit, func(t *testing.T) {
			for _, name := range []string{"suspended", "queued", "succeeded", "failed"} {
				t.Run(name, func(t *testing.T) { testRecordedIdleGang(t, selectRecorded(t, build, name)) })
			}
			for _, name := range []string{"restarting", "restarting-set", "restarting-pair-"} {
				t.Run(name, func(t *testing.T) { testRecordedRestart(t, selectRecorded(t, build, name)) })
			}
		})
	}
}

// selectRecorded returns the workload with a name, or all with a prefix that ends in a hyphen.
func selectRecorded(t *testing.T, build recorded.Build, name string) []gang.Workload {
	t.Helper()
	out := slices.DeleteFunc(slices.Clone(build.Workloads), func(w gang.Workload) bool {
		isMember := strings.HasSuffix(name, "-") && strings.HasPrefix(w.Meta().Name, name)
		return w.Meta().Name != name && !isMember
	})
	if len(out) == 0 {
		t.Fatalf("the build has no workload %s", name)
	}
	return out
}

func newRecordedCluster(t *testing.T, workloads []gang.Workload) (*testCluster, Request) {
	t.Helper()
	var objects []client.Object
	for _, w := range workloads {
		objects = append(objects, w.DeepCopy().Object().(client.Object))
	}
	c := newTestCluster(t, objects...)
	c.clock.SetTime(lifecycle.ReadStatus(workloads[0]).LastTransitionTime.Add(time.Second))
	first := workloads[0]
	if len(workloads) > 1 {
		return c, Request{Namespace: first.Meta().Namespace, Gang: first.Template().Labels[gang.LabelGang]}
	}
	return c, Request{Namespace: first.Meta().Namespace, Kind: gang.Kind(first.GroupKind().Kind), Name: first.Meta().Name}
}

// testRecordedIdleGang checks that this build keeps the status and writes nothing, also after a day. The first
// pass can complete what the earlier build was about to write: a build was recorded between the status of a
// failed gang and the condition of its Job.
func testRecordedIdleGang(t *testing.T, workloads []gang.Workload) {
	c, req := newRecordedCluster(t, workloads)
	c.reconcileOnce(t, req)
	before := c.readRecorded(t, workloads[0])
	recordedStatus, status := lifecycle.ReadStatus(workloads[0]), lifecycle.ReadStatus(before)
	if diff := cmp.Diff(recordedStatus.State, status.State); diff != "" {
		t.Errorf("the state changed (-recorded +now):\n%s", diff)
	}
	for range 3 {
		c.reconcileOnce(t, req)
		c.clock.SetTime(c.clock.Now().Add(12 * time.Hour))
	}
	after := c.readRecorded(t, workloads[0])
	if before.Meta().ResourceVersion != after.Meta().ResourceVersion {
		t.Errorf("the status was %s, and is %s",
			before.Meta().Annotations[gang.AnnotationStatus], after.Meta().Annotations[gang.AnnotationStatus])
	}
}

// testRecordedRestart checks that the restart waits for the end of its back-off and then completes once.
func testRecordedRestart(t *testing.T, workloads []gang.Workload) {
	c, req := newRecordedCluster(t, workloads)
	c.reconcileOnce(t, req)
	for _, w := range workloads {
		if now := c.readRecorded(t, w); !now.IsSuspended() || lifecycle.ReadPhase(now) != lifecycle.Restarting {
			t.Errorf("%s is %s during its back-off", w.Meta().Name, lifecycle.ReadPhase(now))
		} else if by := now.Meta().Annotations[gang.AnnotationSuspendedBy]; by != gang.SuspendedByRollcall {
			t.Errorf("%s is suspended by %q", w.Meta().Name, by)
		}
	}
	c.clock.SetTime(lifecycle.ReadStatus(workloads[0]).NextRestartTime.Add(time.Second))
	for _, w := range workloads {
		c.terminateRecordedPods(t, w)
	}
	for range 3 {
		c.reconcileOnce(t, req)
	}
	for _, w := range workloads {
		now := c.readRecorded(t, w)
		status := lifecycle.ReadStatus(now)
		if now.IsSuspended() || status.Phase != lifecycle.Pending || status.Restarts != 2 || status.FirstFailure == nil {
			t.Errorf("%s is suspended: %t, with the status %+v", w.Meta().Name, now.IsSuspended(), status)
		}
		if now.Job != nil && now.Template().Labels[gang.LabelAttempt] != "2" {
			t.Errorf("%s has the attempt %q", w.Meta().Name, now.Template().Labels[gang.LabelAttempt])
		}
		if now.StatefulSet != nil && ptr.Deref(now.StatefulSet.Spec.Replicas, 0) != 2 {
			t.Errorf("%s has %d replicas", w.Meta().Name, ptr.Deref(now.StatefulSet.Spec.Replicas, 0))
		}
	}
}

// terminateRecordedPods sets the status of a suspended workload to what its controller reports when all pods
// have terminated.
func (w *testCluster) terminateRecordedPods(t *testing.T, workload gang.Workload) {
	t.Helper()
	now := w.readRecorded(t, workload)
	if now.Job != nil {
		status := &now.Job.Status
		status.Active, status.Ready, status.Terminating, status.StartTime = 0, ptr.To[int32](0), ptr.To[int32](0), nil
		status.Conditions = append(slices.DeleteFunc(status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobSuspended
		}), batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue})
	} else {
		now.StatefulSet.Status.Replicas, now.StatefulSet.Status.ReadyReplicas = 0, 0
		now.StatefulSet.Status.ObservedGeneration = now.StatefulSet.Generation
	}
	if err := w.Status().Update(t.Context(), now.Object().(client.Object)); err != nil {
		t.Fatal(err)
	}
}

func (w *testCluster) readRecorded(t *testing.T, workload gang.Workload) gang.Workload {
	t.Helper()
	out, _ := gang.NewWorkload(gang.Kind(workload.GroupKind().Kind))
	key := client.ObjectKey{Namespace: workload.Meta().Namespace, Name: workload.Meta().Name}
	if err := w.Get(t.Context(), key, out.Object().(client.Object)); err != nil {
		t.Fatal(err)
	}
	return out
}

package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// newMemberJob returns a member whose pods are all ready.
func newMemberJob(t *testing.T, framework, role, roles string, size int32) *batchv1.Job {
	t.Helper()
	spec := singlePodJobSpec()
	spec.Parallelism, spec.Completions = &size, &size
	job := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train-"+role, framework, role, roles), Spec: spec,
	}).(*batchv1.Job)
	job.Status = batchv1.JobStatus{Active: size, Ready: &size}
	return job
}

func newMasterAndWorkers(t *testing.T) (master, worker *batchv1.Job) {
	t.Helper()
	const roles = "master=1,worker=3"
	return newMemberJob(t, "pytorch", "master", roles, 1), newMemberJob(t, "pytorch", "worker", roles, 3)
}

// newStranger returns a StatefulSet with the name of a member and other settings, and its failed pod.
func newStranger(t *testing.T) (*appsv1.StatefulSet, *corev1.Pod) {
	t.Helper()
	set := admitObject(t, &appsv1.StatefulSet{
		ObjectMeta: newObjectMeta("train-worker", "pytorch", "worker", "master=1,worker=1"),
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: *podTemplate.DeepCopy()},
	}).(*appsv1.StatefulSet)
	set.UID = "stranger"
	failed := corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", FinishedAt: metav1.NewTime(testStartTime.Add(2 * time.Minute)),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-worker-0",
			Labels: map[string]string{
				gang.LabelGang: "train", gang.LabelRole: "worker", appsv1.PodIndexLabel: "0",
			},
			CreationTimestamp: metav1.NewTime(testStartTime.Add(time.Minute)),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "StatefulSet", Name: "train-worker", UID: "stranger", Controller: ptr.To(true),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "trainer", LastTerminationState: corev1.ContainerState{Terminated: &failed},
		}}},
	}
	return set, pod
}

// getJob reads a Job and its status.
func (w *testCluster) getJob(t *testing.T, name string) (*batchv1.Job, lifecycle.Status) {
	t.Helper()
	job := &batchv1.Job{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, job); err != nil {
		t.Fatal(err)
	}
	return job, lifecycle.ReadStatus(gang.Workload{Job: job})
}

// isUntouched reports whether Rollcall neither suspended nor finished a Job of a size.
func isUntouched(job *batchv1.Job, size int32) bool {
	return !ptr.Deref(job.Spec.Suspend, false) && *job.Spec.Parallelism == size && *job.Spec.Completions == size &&
		job.Spec.ActiveDeadlineSeconds == nil
}

// countEvents returns the number of recorded Events with a reason.
func (w *testCluster) countEvents(reason gang.Reason) int {
	n := 0
	for recorder := w.Recorder.(*events.FakeRecorder); len(recorder.Events) > 0; {
		if strings.Contains(<-recorder.Events, " "+string(reason)+" ") {
			n++
		}
	}
	return n
}

// TestMemberOfEarlierRun checks that a Job that completed in an earlier run does not complete a new run.
func TestMemberOfEarlierRun(t *testing.T) {
	for name, c := range map[string]struct {
		roles       string
		wantPhase   lifecycle.Phase
		wantReason  gang.Reason
		wantMessage string
	}{
		"gang without the role of the completed Job runs": {
			roles: "worker=3", wantPhase: lifecycle.Running, wantReason: gang.ReasonGangRunning,
		},
		"gang waits for a new Job": {
			roles: "chief=1,worker=3", wantPhase: lifecycle.Pending, wantReason: gang.ReasonMembersMissing,
			wantMessage: "The Job train-chief finished before other workloads of the gang were created",
		},
	} {
		t.Run(name, func(t *testing.T) {
			chief := newMemberJob(t, "tensorflow", "chief", "chief=1,worker=2", 1)
			chief.CreationTimestamp = metav1.NewTime(testStartTime.Add(-time.Hour))
			chief.Status = batchv1.JobStatus{Succeeded: 1, Conditions: []batchv1.JobCondition{{
				Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(testStartTime.Add(-time.Minute)),
			}}}
			worker := newMemberJob(t, "tensorflow", "worker", c.roles, 3)
			other := newMemberJob(t, "tensorflow", "chief", "chief=1,worker=3", 1) // of another team
			other.Namespace = "payroll"
			w := newTestCluster(t, chief, worker, other)
			for range 3 {
				w.reconcileOnce(t, trainRequest)
				w.clock.SetTime(w.clock.Now().Add(time.Minute))
			}
			job, status := w.getJob(t, "train-worker")
			if status.Phase != c.wantPhase || status.Reason != c.wantReason ||
				!strings.Contains(status.Message, c.wantMessage) || !isUntouched(job, 3) {
				t.Errorf("status %+v, parallelism %d", status, *job.Spec.Parallelism)
			}
			if n := w.countEvents(gang.ReasonMemberOfEarlierRun); n != 1 {
				t.Errorf("%d Events MemberOfEarlierRun, want 1", n)
			}
		})
	}
}

// TestStranger checks that a workload of somebody else neither restarts nor ends a gang.
func TestStranger(t *testing.T) {
	for name, c := range map[string]struct {
		passesBefore int // passes before the stranger exists
		wantPhase    lifecycle.Phase
	}{
		"stranger exists before the gang has a status": {wantPhase: lifecycle.Pending},
		"stranger is created while the gang runs":      {passesBefore: 1, wantPhase: lifecycle.Running},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			w := newTestCluster(t, master, worker)
			for range c.passesBefore {
				w.reconcileOnce(t, trainRequest)
			}
			set, pod := newStranger(t)
			for _, o := range []client.Object{set, pod} {
				uid := o.GetUID()
				if err := w.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				o.SetUID(uid) // the fake API server of the tests chose another
				if err := w.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.clock.SetTime(testStartTime.Add(3 * time.Minute))
			for range 2 {
				w.reconcileOnce(t, trainRequest)
			}
			for name, size := range map[string]int32{"train-master": 1, "train-worker": 3} {
				job, status := w.getJob(t, name)
				if status.Phase != c.wantPhase || status.Reason != gang.ReasonMemberConflict || status.Restarts != 0 ||
					!strings.Contains(status.Message, "StatefulSet train-worker") && !strings.Contains(status.Message, "both named") {
					t.Errorf("%s: status %+v", name, status)
				}
				if !isUntouched(job, size) {
					t.Errorf("%s was changed: %+v", name, job.Spec)
				}
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				t.Fatal(err)
			}
			status := lifecycle.ReadStatus(gang.Workload{StatefulSet: set})
			if status.Reason != gang.ReasonMemberConflict || status.Phase != lifecycle.Pending || *set.Spec.Replicas != 1 {
				t.Errorf("stranger: %d replicas, status %+v", *set.Spec.Replicas, status)
			}
		})
	}
}

// TestLongConflict checks that a report that is too long for a status is written once.
func TestLongConflict(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	objects := []client.Object{master, worker}
	for i := range 30 {
		// Its name is not that of a member, so it cannot be parsed.
		other := worker.DeepCopy()
		other.Name = "other-" + strings.Repeat("x", 40) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		other.UID = types.UID(other.Name)
		objects = append(objects, other)
	}
	w := newTestCluster(t, objects...)
	w.reconcileOnce(t, trainRequest)
	before, status := w.getJob(t, "train-master")
	if status.Reason != gang.ReasonMemberConflict || !strings.HasSuffix(status.Message, "…") {
		t.Fatalf("a message of %d bytes: %+v", len(status.Message), status)
	}
	w.reconcileOnce(t, trainRequest)
	if after, _ := w.getJob(t, "train-master"); after.ResourceVersion != before.ResourceVersion {
		t.Error("another pass wrote the report again")
	}
}

// TestGangRestartsDespiteStranger checks that a stranger does not prevent the restart of a gang either.
func TestGangRestartsDespiteStranger(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	w := newTestCluster(t, master, worker)
	w.reconcileOnce(t, trainRequest)
	set, _ := newStranger(t)
	if err := w.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	job, _ := w.getJob(t, "train-worker")
	job.Status.Failed = 1
	if err := w.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	for _, name := range []string{"train-master", "train-worker"} {
		job, status := w.getJob(t, name)
		if status.Phase != lifecycle.Restarting || status.Disruptions != 1 || !*job.Spec.Suspend {
			t.Errorf("%s: suspended %v, status %+v", name, *job.Spec.Suspend, status)
		}
		if !strings.Contains(status.Message, "Unobserved") || !strings.Contains(status.Message, "StatefulSet train-worker") {
			t.Errorf("%s: message %q", name, status.Message)
		}
	}
}

// TestFrozenGang checks that members with different settings neither restart nor complete a gang, in any
// phase.
func TestFrozenGang(t *testing.T) {
	for _, phase := range lifecycle.Phases() {
		t.Run(string(phase), func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			worker.Annotations[gang.AnnotationPort] = "1234"
			for _, job := range []*batchv1.Job{master, worker} {
				status := lifecycle.Status{
					Reason: phase.Reason(),
					State: lifecycle.State{
						Phase: phase, LastTransitionTime: testStartTime,
						Bookkeeping: lifecycle.Bookkeeping{MemberUIDs: []types.UID{master.UID, worker.UID}},
					},
				}
				if err := status.WriteTo(gang.Workload{Job: job}); err != nil {
					t.Fatal(err)
				}
			}
			worker.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testStartTime)},
			}}
			w := newTestCluster(t, master, worker)
			for range 2 {
				w.reconcileOnce(t, trainRequest)
			}
			for name, size := range map[string]int32{"train-master": 1, "train-worker": 3} {
				job, status := w.getJob(t, name)
				if status.Phase != phase || status.Reason != gang.ReasonMemberConflict || !isUntouched(job, size) {
					t.Errorf("%s: status %+v", name, status)
				}
			}
			var services corev1.ServiceList
			if err := w.List(t.Context(), &services); err != nil || len(services.Items) > 0 {
				t.Errorf("%d Services exist, %v", len(services.Items), err)
			}
			if n := w.countEvents(gang.ReasonMemberConflict); n != 2 {
				t.Errorf("%d Events MemberConflict, want one for each member", n)
			}
		})
	}
}

// TestMemberRecreated checks that the recreation of a member restarts the gang once, also if the manager
// restarts after it has written only one member.
func TestMemberRecreated(t *testing.T) {
	for name, recreated := range map[string]string{
		"first member": "train-master", "second member": "train-worker",
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			members := map[string]*batchv1.Job{"train-master": master.DeepCopy(), "train-worker": worker.DeepCopy()}
			w := newTestCluster(t, master, worker)
			w.reconcileOnce(t, trainRequest)
			old, status := w.getJob(t, recreated)
			if want := []types.UID{"train-master", "train-worker"}; !slices.Equal(status.MemberUIDs, want) {
				t.Fatalf("the running gang records %q", status.MemberUIDs)
			}
			if err := w.Delete(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if err := w.Create(t.Context(), members[recreated]); err != nil {
				t.Fatal(err)
			}
			w.reconcileOnce(t, trainRequest)
			checkRestart := func() {
				t.Helper()
				for name := range members {
					job, status := w.getJob(t, name)
					if status.Phase != lifecycle.Restarting || status.Disruptions != 1 || !ptr.Deref(job.Spec.Suspend, false) ||
						status.FirstFailure == nil || status.FirstFailure.Reason != failure.ReasonMemberRecreated {
						t.Errorf("%s: status %+v", name, status)
					}
				}
			}
			checkRestart()
			// A manager that crashed after the write to the first member.
			last, _ := w.getJob(t, "train-worker")
			delete(last.Annotations, gang.AnnotationStatus)
			last.Spec.Suspend = ptr.To(false)
			if err := w.Update(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			w.sessions = sessions{}
			w.reconcileOnce(t, trainRequest)
			checkRestart()
		})
	}
}

// TestNewRunWithRemainingStatefulSet checks that a gang whose Job is recreated runs again with the
// StatefulSet that Rollcall scaled to 0 when the earlier run failed.
func TestNewRunWithRemainingStatefulSet(t *testing.T) {
	launcher, workers := newLauncherJob(t), newWorkerStatefulSet(t)
	workers.Spec.Replicas = ptr.To[int32](0)
	failed := lifecycle.Status{
		Reason: gang.ReasonGangFailed,
		State: lifecycle.State{
			Phase: lifecycle.Failed, LastTransitionTime: testStartTime.Add(-time.Minute), Restarts: 3,
			FirstFailure: &failure.Failure{Rank: 1, Reason: "Error"},
			Bookkeeping:  lifecycle.Bookkeeping{SuspendedByRollcall: true, MemberUIDs: []types.UID{"old", workers.UID}},
		},
	}
	if err := failed.WriteTo(gang.Workload{StatefulSet: workers}); err != nil {
		t.Fatal(err)
	}
	w := newTestCluster(t, launcher, workers)
	w.reconcileOnce(t, trainRequest)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(workers), workers); err != nil {
		t.Fatal(err)
	}
	status := lifecycle.ReadStatus(gang.Workload{StatefulSet: workers})
	if *workers.Spec.Replicas != 3 || status.Phase != lifecycle.Pending || status.Restarts != 0 {
		t.Errorf("%d replicas, status %+v", *workers.Spec.Replicas, status)
	}
	if job, _ := w.getJob(t, "train-launcher"); !isUntouched(job, 1) {
		t.Errorf("the new Job was changed: %+v", job.Spec)
	}
}

// TestMemberInOtherNamespace checks that the status contains nothing about a workload of another team.
func TestMemberInOtherNamespace(t *testing.T) {
	worker := newWorkerStatefulSet(t)
	worker.Namespace = "payroll"
	w := newTestCluster(t, newLauncherJob(t), worker)
	for range 2 {
		w.reconcileOnce(t, trainRequest)
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
	}
	_, status := w.getJob(t, "train-launcher")
	const want = "Waiting for train-worker (role worker, 3 pods)"
	if status.Reason != gang.ReasonMembersMissing || status.Message != want {
		t.Errorf("status: %+v", status)
	}
}

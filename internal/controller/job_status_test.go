package controller

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
	"rollcall.training/internal/testing/podtest"
)

// TestResetJobStatus checks that start time and completed indexes of a suspended Job are cleared before
// it is resumed. Before Kubernetes 1.36 the Job controller keeps the start time, and the API server
// rejects changes of the template.
func TestResetJobStatus(t *testing.T) {
	text, err := lifecycle.Status{
		State: lifecycle.State{
			Phase:       lifecycle.Restarting,
			Restarts:    1,
			Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
		},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		phase    lifecycle.Phase
		restarts int32
		started  bool
		queued   bool
		// succeeded is the number of completed indexes, uncounted the number of pods that are not
		// counted yet.
		succeeded, uncounted int
		want                 error
	}{
		"started Job is about to be resumed": {
			phase:    lifecycle.Pending,
			restarts: 1,
			started:  true,
			want:     errJobStatusReset,
		},
		"ranks completed in the last attempt": {
			phase:     lifecycle.Pending,
			restarts:  1,
			succeeded: 2,
			want:      errJobStatusReset,
		},
		"a completed rank is not counted yet": {
			phase:     lifecycle.Pending,
			restarts:  1,
			started:   true,
			succeeded: 1,
			uncounted: 1,
			want:      errJobStatusPending,
		},
		"start time was cleared before":      {phase: lifecycle.Pending, restarts: 1},
		"restarting gang is not resumed yet": {phase: lifecycle.Restarting, restarts: 1, started: true},
		"Job will be resumed by its user": {
			phase:    lifecycle.Suspended,
			restarts: 1,
			started:  true,
			want:     errJobStatusReset,
		},
		"Job will be resumed by its queue": {
			phase:    lifecycle.Suspended,
			restarts: 1,
			started:  true,
			queued:   true,
			want:     errJobStatusReset,
		},
		"Job keeps its attempt": {phase: lifecycle.Suspended, started: true, want: errJobStatusReset},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{
					Name:        "train",
					Namespace:   "team",
					Annotations: map[string]string{gang.AnnotationStatus: text},
				},
				Spec: batchv1.JobSpec{Suspend: ptr.To(true)},
				Status: batchv1.JobStatus{
					Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}},
				},
			}
			j.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "0"}
			if c.succeeded > 0 {
				j.Status.Succeeded, j.Status.CompletedIndexes = int32(c.succeeded), "0-1"
			}
			if c.uncounted > 0 {
				j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}
			}
			if c.started {
				j.Status.StartTime = ptr.To(metav1.NewTime(time.Unix(1, 0)))
			}
			r := &Reconciler{
				Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(j).WithStatusSubresource(j).Build(),
			}
			var have batchv1.Job
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &have); err != nil {
				t.Fatal(err)
			}
			p := &observedGang{pass: &pass{}, Roster: roster.Roster[member]{Members: []member{{
				Member:         roster.Member{Workload: gang.Workload{Job: &have}, Result: &injectors.Result{}},
				managedByQueue: c.queued,
			}}}}
			err := r.resetJobStatus(t.Context(), p.Members[0], desiredAction(p, p.Members[0], lifecycle.State{
				Phase:    c.phase,
				Restarts: c.restarts,
			}))
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &have); err != nil {
				t.Fatal(err)
			}
			wantReset := errors.Is(c.want, errJobStatusReset)
			wantSucceeded := int32(c.succeeded)
			if wantReset {
				wantSucceeded = 0
			}
			if have.Status.Succeeded != wantSucceeded || wantReset && have.Status.CompletedIndexes != "" {
				t.Errorf("%d ranks completed: %q", have.Status.Succeeded, have.Status.CompletedIndexes)
			}
			if got := have.Status.StartTime != nil; got != (c.started && !wantReset) || !*have.Spec.Suspend {
				t.Errorf("start time present %v, suspended %v", got, *have.Spec.Suspend)
			}
		})
	}
}

// TestResumeWaitsForUncountedSuccess checks that a Job is neither reset nor resumed before the Job
// controller has counted a drained pod that succeeded. A Job controller that is slow would otherwise
// count the pod in the next attempt, which would lose the rank.
func TestResumeWaitsForUncountedSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*corev1.Pod)
		wantResume bool
	}{
		"pod succeeded and is not counted": {change: podtest.Tracked},
		"pod succeeded and is counted":     {change: func(*corev1.Pod) {}, wantResume: true},
		"failed pod keeps its finalizer until it is replaced": {change: func(p *corev1.Pod) {
			podtest.Tracked(p)
			p.Status.Phase = corev1.PodFailed
		}, wantResume: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRestartingJob(t)
			job.Status.Succeeded, job.Status.CompletedIndexes = 1, "0"
			pod := podtest.RankPod(1, podtest.Terminated(0, 20, false))
			pod.Namespace, pod.Labels[gang.LabelAttempt] = "team", "0"
			pod.OwnerReferences = []metav1.OwnerReference{
				*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
			}
			c.change(&pod)
			w := newTestCluster(t, job, &pod)
			for range 2 { // the first pass resets the status, the second resumes the Job
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			var have batchv1.Job
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), &have); err != nil {
				t.Fatal(err)
			}
			gotReset, gotResume := have.Status.CompletedIndexes == "", !*have.Spec.Suspend
			if gotReset != c.wantResume || gotResume != c.wantResume {
				t.Errorf("reset %v, resumed %v, want %v", gotReset, gotResume, c.wantResume)
			}
		})
	}
}

// newRestartingJob returns a Job of two ranks that Rollcall has suspended for its first restart. The Job
// controller has observed that.
func newRestartingJob(t *testing.T) *batchv1.Job {
	t.Helper()
	about := newObjectMeta("train", "pytorch", "", "")
	delete(about.Labels, gang.LabelRole)
	spec := singlePodJobSpec()
	spec.Parallelism, spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
	job := admitObject(t, &batchv1.Job{ObjectMeta: about, Spec: spec}).(*batchv1.Job)
	text, err := lifecycle.Status{
		Reason: gang.ReasonGangRestarting,
		State: lifecycle.State{
			Phase:              lifecycle.Restarting,
			LastTransitionTime: testStartTime,
			Restarts:           1,
			LastRestartTime:    testStartTime,
			Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: testStartTime, SuspendedByRollcall: true},
		},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(lifecycle.Restarting)
	job.Spec.Suspend = ptr.To(true)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	return job
}

// TestWithdrawSuspendedCondition checks that Rollcall withdraws the condition of an earlier suspension when it suspends
// a Job. The Job controller creates pods before it writes the status, and the write conflicts with the suspension. The
// next attempt would otherwise start while the pods run.
func TestWithdrawSuspendedCondition(t *testing.T) {
	for name, c := range map[string]struct {
		conditions []batchv1.JobCondition
		want       corev1.ConditionStatus
	}{
		"the condition of an earlier suspension": {
			conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}},
			want:       corev1.ConditionFalse,
		},
		"no suspension before": {},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRunningJob(t)
			job.Status.Conditions = c.conditions
			w := newTestCluster(t, job)
			stored, _ := w.getJob(t, "train")
			pod := newJobPod(stored, 1)
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "trainer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 1, Reason: "Error", FinishedAt: metav1.NewTime(w.clock.Now()),
				}},
			}}}
			if err := w.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first pass withdraws the condition, the second suspends the Job
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			have, _ := w.getJob(t, "train")
			if !ptr.Deref(have.Spec.Suspend, false) {
				t.Fatal("the Job is not suspended")
			}
			var got corev1.ConditionStatus
			for _, condition := range have.Status.Conditions {
				if condition.Type == batchv1.JobSuspended {
					got = condition.Status
				}
			}
			if got != c.want {
				t.Errorf("the condition Suspended is %q, want %q", got, c.want)
			}
		})
	}
}

package injectors_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/lifecycle"
)

// newScaledDownSet returns a StatefulSet of two replicas that Rollcall scaled to 0 in the given phase,
// and the manifest of its user.
func newScaledDownSet(
	t *testing.T, engine *injectors.Engine, phase lifecycle.Phase,
) (live, manifest *appsv1.StatefulSet) {
	t.Helper()
	manifest = newStatefulSet("train", nil, 2)
	live = manifest.DeepCopy()
	if _, err := engine.Admit(gang.Workload{StatefulSet: live}); err != nil {
		t.Fatal(err)
	}
	status := lifecycle.Status{State: lifecycle.State{
		Phase:       phase,
		Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
	}}
	if err := status.WriteTo(gang.Workload{StatefulSet: live}); err != nil {
		t.Fatal(err)
	}
	live.Spec.Replicas = ptr.To[int32](0)
	return live, manifest
}

// TestReapplyPreservesZeroReplicas checks that only a request to scale starts a StatefulSet that
// Rollcall scaled to 0.
func TestReapplyPreservesZeroReplicas(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		phase        lifecycle.Phase
		update       func(live, manifest *appsv1.StatefulSet) *appsv1.StatefulSet
		wantReplicas int32
		wantWarning  string // part of the only warning, empty if there must be no warning
	}{
		"GitOps tool replaces a finished gang": {
			phase:        lifecycle.Failed,
			update:       func(_, manifest *appsv1.StatefulSet) *appsv1.StatefulSet { return manifest },
			wantReplicas: 0,
			wantWarning:  "kubectl scale statefulset/train --replicas=2",
		},
		"kubectl apply patches the replicas of a finished gang": {
			phase: lifecycle.Succeeded,
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				live.Spec.Replicas = ptr.To[int32](2)
				return live
			},
			wantReplicas: 0,
			wantWarning:  "kept at 0",
		},
		"replacement does not shorten the back-off": {
			phase:        lifecycle.Restarting,
			update:       func(_, manifest *appsv1.StatefulSet) *appsv1.StatefulSet { return manifest },
			wantReplicas: 0,
			wantWarning:  "while the gang is Restarting",
		},
		"reconciler resumes the gang and updates the status in one request": {
			phase: lifecycle.Restarting,
			update: func(live, _ *appsv1.StatefulSet) *appsv1.StatefulSet {
				live.Spec.Replicas, live.Annotations[gang.AnnotationStatus] = ptr.To[int32](2), `{"phase":"Pending"}`
				delete(live.Annotations, gang.AnnotationSuspendedBy)
				return live
			},
			wantReplicas: 2,
		},
		"a different size is a request to scale": {
			phase: lifecycle.Failed,
			update: func(_, manifest *appsv1.StatefulSet) *appsv1.StatefulSet {
				manifest.Spec.Replicas = ptr.To[int32](3)
				return manifest
			},
			wantReplicas: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, manifest := newScaledDownSet(t, engine, c.phase)
			updated := c.update(live.DeepCopy(), manifest)
			result, err := engine.AdmitUpdate(live, updated)
			if err != nil {
				t.Fatal(err)
			}
			if *updated.Spec.Replicas != c.wantReplicas {
				t.Errorf("the StatefulSet has %d replicas, want %d", *updated.Spec.Replicas, c.wantReplicas)
			}
			isResumed := c.wantReplicas == 2
			if by := updated.Annotations[gang.AnnotationSuspendedBy]; (by == "") != isResumed {
				t.Errorf("the StatefulSet is suspended by %q", by)
			}
			got := strings.Join(result.Warnings.Strings(), "\n")
			if (c.wantWarning == "") != (got == "") || !strings.Contains(got, c.wantWarning) {
				t.Errorf("warnings = %q, want a warning with %q", got, c.wantWarning)
			}
		})
	}
}

// TestReplaceDuringRestart checks that a modified manifest keeps the status and the size of a
// restarting gang, so that Rollcall resumes the gang with its former size.
func TestReplaceDuringRestart(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	live, manifest := newScaledDownSet(t, engine, lifecycle.Restarting)
	manifest.Spec.Template.Spec.Containers[0].Image = "example.com/train:2"
	result, err := engine.AdmitUpdate(live, manifest)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(result.Warnings.Strings(), "\n"); !strings.Contains(got, "kept at 0 while") {
		t.Errorf("warnings = %q, want a warning about the kept size", got)
	}
	w := gang.Workload{StatefulSet: manifest}
	status := lifecycle.ReadStatus(w)
	if status.Phase != lifecycle.Restarting || !status.SuspendedByRollcall || *manifest.Spec.Replicas != 0 {
		t.Errorf("phase = %s, suspendedByRollcall = %t, replicas = %d, want Restarting, true, 0",
			status.Phase, status.SuspendedByRollcall, *manifest.Spec.Replicas)
	}
	record, err := injection.ReadRecord(w)
	if err != nil || record.Replicas != 2 {
		t.Errorf("the record has %d replicas and the error %v, want 2 replicas", record.Replicas, err)
	}
	for _, e := range manifest.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "WORLD_SIZE" && e.Value != "2" {
			t.Errorf("WORLD_SIZE = %s, want 2", e.Value)
		}
	}
}

// TestCopyOfFinishedWorkload checks that a manifest which was copied from a finished gang creates a new
// gang.
func TestCopyOfFinishedWorkload(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{gang.AnnotationStatus: encodeStatus(t, lifecycle.Status{State: lifecycle.State{
		Phase:        lifecycle.Failed,
		FirstFailure: &failure.Failure{Reason: "Error"},
	}})}, 2)
	job.Spec.ActiveDeadlineSeconds = ptr.To[int64](0)
	if _, err := engine.Inject(gang.Workload{Job: job}); err != nil {
		t.Fatal(err)
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		t.Error("the new Job keeps activeDeadlineSeconds: 0 and would fail immediately")
	}
	live, _ := newScaledDownSet(t, engine, lifecycle.Failed)
	if _, err := engine.Inject(gang.Workload{StatefulSet: live}); err != nil {
		t.Fatal(err)
	}
	if *live.Spec.Replicas != 2 {
		t.Errorf("the new StatefulSet has %d replicas, want 2", *live.Spec.Replicas)
	}
}

// TestCopyOfRestartingJob checks that a manifest which was copied from a restarting Job starts, unless a
// queue must admit the new Job.
func TestCopyOfRestartingJob(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, c := range map[string]struct {
		queue       string
		wantSuspend bool
	}{
		"a Job without a queue starts":               {wantSuspend: false},
		"a Job of a queue waits for its reservation": {queue: "research", wantSuspend: true},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(map[string]string{gang.AnnotationStatus: encodeStatus(t, lifecycle.Status{State: lifecycle.State{
				Phase:       lifecycle.Restarting,
				Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
			}})}, 2)
			job.Spec.Suspend = ptr.To(true)
			if c.queue != "" {
				job.Labels[gang.LabelQueueName] = c.queue
			}
			if _, err := engine.Admit(gang.Workload{Job: job}); err != nil {
				t.Fatal(err)
			}
			if *job.Spec.Suspend != c.wantSuspend {
				t.Errorf("suspend = %t, want %t", *job.Spec.Suspend, c.wantSuspend)
			}
		})
	}
}

// TestCopyOfJobWithExcludedNodes checks that a manifest which was copied from a Job of a gang that avoids nodes has the
// template of the user.
func TestCopyOfJobWithExcludedNodes(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	job := newJob(map[string]string{gang.AnnotationStatus: encodeStatus(t, lifecycle.Status{State: lifecycle.State{
		Phase: lifecycle.Running, Bookkeeping: lifecycle.Bookkeeping{
			MemberNodes: lifecycle.MemberNodes{ExcludedNodes: []string{"node-b"}, SuspectNodes: []string{"node-c"}},
		},
	}})}, 2)
	w := gang.Workload{Job: job}
	w.ReplaceExcludedNodes(nil, []string{"node-b"})
	w.ReplaceSuspectNodes(nil, []string{"node-c"})
	if _, err := engine.Admit(w); err != nil {
		t.Fatal(err)
	}
	if w.Template().Spec.Affinity != nil {
		t.Errorf("affinity %v", w.Template().Spec.Affinity)
	}
}

// TestCreateWithZeroReplicas checks that a member that is created with 0 replicas takes its size from
// its annotations.
func TestCreateWithZeroReplicas(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for name, annotations := range map[string]map[string]string{
		"train-worker": {gang.AnnotationRoles: "master=1,worker=4"},
		"train":        {gang.AnnotationElastic: "2:4"},
	} {
		set := newStatefulSet(name, annotations, 0)
		if _, err := engine.Inject(gang.Workload{StatefulSet: set}); err != nil {
			t.Errorf("injecting with the annotations %v: %v", annotations, err)
		}
	}
}

// TestElasticResizePreservesTemplate checks that a resize within the bounds does not change the pod
// template, so that no pod is replaced.
func TestElasticResizePreservesTemplate(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	for framework, annotations := range map[string]map[string]string{
		"pytorch": {gang.AnnotationElastic: "2:4"},
		"horovod": {gang.AnnotationElastic: "2:4", gang.AnnotationRoles: "launcher=1,worker=2"},
	} {
		t.Run(framework, func(t *testing.T) {
			live := newStatefulSet("train-worker", annotations, 2)
			live.Labels[gang.LabelFramework], live.Labels[gang.LabelRole] = framework, "worker"
			if _, err := engine.Admit(gang.Workload{StatefulSet: live}); err != nil {
				t.Fatal(err)
			}
			resized := live.DeepCopy()
			resized.Spec.Replicas = ptr.To[int32](3)
			if _, err := engine.AdmitUpdate(live, resized); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(live.Spec.Template, resized.Spec.Template); diff != "" {
				t.Errorf("the template changed (-live +resized):\n%s", diff)
			}
		})
	}
}

// TestPreserveSuspend checks that an update without changes means that the user keeps a restarting Job
// suspended.
func TestPreserveSuspend(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	restarting := lifecycle.Status{State: lifecycle.State{
		Phase:        lifecycle.Restarting,
		Restarts:     1,
		FirstFailure: &failure.Failure{Rank: 1, Reason: "Error"},
		Bookkeeping:  lifecycle.Bookkeeping{Attempt: 1, SuspendedByRollcall: true},
	}}
	suspendedByUser := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Suspended}}
	alreadyKept := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Restarting, Restarts: 1}}
	noChange := func(_, _ *batchv1.Job) {}
	for name, c := range map[string]struct {
		status lifecycle.Status
		change func(old, updated *batchv1.Job)
		want   gang.Reason
	}{
		"no change": {
			status: restarting,
			change: noChange,
			want:   gang.ReasonKeptSuspended,
		},
		"only managedFields change": {
			status: restarting,
			change: func(_, updated *batchv1.Job) {
				updated.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
			},
			want: gang.ReasonKeptSuspended,
		},
		"a changed label does not concern the suspension": {
			status: restarting,
			change: func(_, updated *batchv1.Job) { updated.Labels["a"] = "b" },
			want:   gang.ReasonImmutableTemplate,
		},
		"the user resumes the Job after confirming its suspension": {
			status: alreadyKept,
			change: func(_, updated *batchv1.Job) { updated.Spec.Suspend = ptr.To(false) },
			want:   gang.ReasonImmutableTemplate,
		},
		"the Job is not suspended": {
			status: restarting,
			change: func(old, updated *batchv1.Job) { old.Spec.Suspend, updated.Spec.Suspend = nil, nil },
			want:   gang.ReasonImmutableTemplate,
		},
		"the user suspended the Job before": {
			status: suspendedByUser,
			change: noChange,
			want:   gang.ReasonImmutableTemplate,
		},
		"the user already keeps the Job suspended": {
			status: alreadyKept,
			change: noChange,
			want:   gang.ReasonImmutableTemplate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := &batchv1.Job{
				ObjectMeta: newLabeledMeta("train", map[string]string{gang.AnnotationStatus: encodeStatus(t, c.status)}),
				Spec:       batchv1.JobSpec{Suspend: ptr.To(true)},
			}
			updated := old.DeepCopy()
			c.change(old, updated)
			want := updated.DeepCopy()
			if c.want == gang.ReasonKeptSuspended {
				want.Annotations[gang.AnnotationSuspendedBy] = gang.SuspendedByUser
			}
			result := engine.PreserveSuspend(old, updated)
			checkPreserved(t, result, c.want)
			if diff := cmp.Diff(want, updated); diff != "" {
				t.Errorf("the Job differs (-want +got):\n%s", diff)
			}
		})
	}
}

// checkPreserved requires a reason, and warnings only if the Job was kept suspended.
func checkPreserved(t *testing.T, result injectors.Result, want gang.Reason) {
	t.Helper()
	if result.Reason != want || (len(result.Warnings) > 0) != (want == gang.ReasonKeptSuspended) {
		t.Errorf("PreserveSuspend = %s with the warnings %q, want %s", result.Reason, result.Warnings, want)
	}
}

// TestPreserveQueuedSuspend checks that a Job of a queue stays suspended while Rollcall restarts the
// gang, and that the pod template gets the number of the attempt when the queue resumes the Job.
func TestPreserveQueuedSuspend(t *testing.T) {
	engine := injectors.NewEngine(injectors.Builtin(), gang.Config{})
	restarting := lifecycle.Status{State: lifecycle.State{
		Phase:       lifecycle.Restarting,
		Restarts:    2,
		Bookkeeping: lifecycle.Bookkeeping{SuspendedByRollcall: true},
	}}
	failed := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Failed}}
	queued := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Suspended, Restarts: 2}}
	pending := lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Pending, Restarts: 2}}
	firstRestart := lifecycle.Status{State: lifecycle.State{Restarts: 1}}
	suspendedAgain := lifecycle.Status{State: lifecycle.State{
		Phase: lifecycle.Suspended, Restarts: 1, Bookkeeping: lifecycle.Bookkeeping{Attempt: 3},
	}}
	for name, c := range map[string]struct {
		oldStatus, updatedStatus lifecycle.Status
		change                   func(old, updated *batchv1.Job) // nil means no further change
		want                     gang.Reason
		wantSuspended            bool
		wantAttempt              string
	}{
		"Kueue resumes the Job before its old pods terminated": {
			oldStatus:     restarting,
			updatedStatus: restarting,
			want:          gang.ReasonKeptSuspended,
			wantSuspended: true,
			wantAttempt:   "1",
		},
		"Rollcall resumes the Job in a cluster without Kueue": {
			oldStatus:     restarting,
			updatedStatus: pending,
			want:          gang.ReasonAttemptLabelSet,
			wantAttempt:   "2",
		},
		"Kueue readmits the Job after it restored the original template": {
			oldStatus:     queued,
			updatedStatus: queued,
			want:          gang.ReasonAttemptLabelSet,
			wantAttempt:   "2",
		},
		"the template of a started Job is immutable": {
			oldStatus:     queued,
			updatedStatus: queued,
			change:        func(old, _ *batchv1.Job) { old.Status.StartTime = &metav1.Time{} },
			want:          gang.ReasonImmutableTemplate,
			wantAttempt:   "1",
		},
		"the template has the number already": {
			oldStatus:     firstRestart,
			updatedStatus: firstRestart,
			want:          gang.ReasonImmutableTemplate,
			wantAttempt:   "1",
		},
		"Kueue suspends a suspended Job": {
			oldStatus:     restarting,
			updatedStatus: restarting,
			change:        func(_, updated *batchv1.Job) { updated.Spec.Suspend = ptr.To(true) },
			want:          gang.ReasonImmutableTemplate,
			wantSuspended: true,
			wantAttempt:   "1",
		},
		"a user resumes the Job before its template has the number": {
			oldStatus:     suspendedAgain,
			updatedStatus: suspendedAgain,
			change:        func(_, updated *batchv1.Job) { delete(updated.Labels, gang.LabelQueueName) },
			want:          gang.ReasonAttemptLabelSet,
			wantAttempt:   "3",
		},
		"the Job was not suspended": {
			oldStatus:     queued,
			updatedStatus: queued,
			change:        func(old, _ *batchv1.Job) { old.Spec.Suspend = nil },
			want:          gang.ReasonImmutableTemplate,
			wantAttempt:   "1",
		},
		"Rollcall fails the Job, which also terminates its pods": {
			oldStatus:     restarting,
			updatedStatus: failed,
			want:          gang.ReasonImmutableTemplate,
			wantAttempt:   "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			newQueuedJob := func(status lifecycle.Status, suspend bool) *batchv1.Job {
				job := &batchv1.Job{
					ObjectMeta: newLabeledMeta("train", map[string]string{gang.AnnotationStatus: encodeStatus(t, status)}),
					Spec:       batchv1.JobSpec{Suspend: &suspend},
				}
				job.Labels[gang.LabelQueueName], job.Labels[gang.LabelPhase] = "team", string(status.Phase)
				job.Spec.Template.Labels = map[string]string{gang.LabelAttempt: "1"}
				return job
			}
			old, updated := newQueuedJob(c.oldStatus, true), newQueuedJob(c.updatedStatus, false)
			if c.change != nil {
				c.change(old, updated)
			}
			checkPreserved(t, engine.PreserveSuspend(old, updated), c.want)
			if *updated.Spec.Suspend != c.wantSuspended {
				t.Errorf("suspend = %t, want %t", *updated.Spec.Suspend, c.wantSuspended)
			}
			if got := updated.Spec.Template.Labels[gang.LabelAttempt]; got != c.wantAttempt {
				t.Errorf("the attempt label is %q, want %q", got, c.wantAttempt)
			}
		})
	}
}

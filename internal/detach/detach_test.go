package detach_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/detach"
	"rollcall.training/internal/lifecycle"
)

var engine = injectors.NewEngine(injectors.Builtin(), gang.Config{})

// admit returns a workload as the webhook admits it, with a status of the given phase.
func admit[T runtime.Object](t *testing.T, object T, phase lifecycle.Phase, suspendedByRollcall bool) T {
	t.Helper()
	w, err := gang.WorkloadOf(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Admit(w); err != nil {
		t.Fatal(err)
	}
	w.Meta().UID = "uid"
	status := lifecycle.Status{State: lifecycle.State{Phase: phase, Restarts: 2}}
	status.SuspendedByRollcall = suspendedByRollcall
	text, err := status.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.Meta().Annotations[gang.AnnotationStatus] = text
	w.Meta().Labels[gang.LabelPhase] = string(phase)
	return object
}

func newMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "team", Name: "train", Labels: map[string]string{gang.LabelFramework: "pytorch"},
	}
}

func newTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "trainer", Image: "example.com/trainer:1"}},
	}}
}

// newRunningJob returns a Job with two running ranks.
func newRunningJob(t *testing.T) *batchv1.Job {
	return admit(t, &batchv1.Job{ObjectMeta: newMeta(), Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: newTemplate(),
	}}, lifecycle.Running, false)
}

// newRestartingJob returns a Job whose ranks have terminated for a restart. One of them exited with code
// 0.
func newRestartingJob(t *testing.T) *batchv1.Job {
	job := admit(t, &batchv1.Job{ObjectMeta: newMeta(), Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), Template: newTemplate(),
	}}, lifecycle.Restarting, true)
	job.Spec.Suspend = ptr.To(true)
	job.Status = batchv1.JobStatus{
		StartTime: ptr.To(metav1.Now()), Succeeded: 1, CompletedIndexes: "1",
		Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}},
	}
	return job
}

// newStatefulSet returns a StatefulSet of two ranks that Rollcall scaled to 0.
func newStatefulSet(t *testing.T, phase lifecycle.Phase) *appsv1.StatefulSet {
	template := newTemplate()
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	set := admit(t, &appsv1.StatefulSet{ObjectMeta: newMeta(), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](2), Template: template,
	}}, phase, true)
	set.Spec.Replicas = ptr.To[int32](0)
	return set
}

// newPod returns a pod of the gang that was deleted, whose grace period ends after the given time.
func newPod(remaining time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-0", Labels: map[string]string{gang.LabelGang: "train"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Job", Name: "train", UID: "uid", Controller: ptr.To(true)}},
			DeletionTimestamp: ptr.To(metav1.NewTime(clock.RealClock{}.Now().Add(remaining))), Finalizers: []string{"test/keep"},
			DeletionGracePeriodSeconds: ptr.To[int64](30),
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// newService returns the Service of the gang, which selects the pods of an attempt.
func newService(number string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{gang.LabelGang: "train", gang.LabelAttempt: number}},
	}
}

// state is what detaching changes in a workload.
type state struct {
	Outcome          detach.Outcome
	Inject, Phase    string
	Suspended        bool
	Ranks            int32
	Attempt          string
	CompletedIndexes string
	Err              string
}

// runDetach detaches all gangs within a minute and returns the state of the workload train.
func runDetach(t *testing.T, client *fake.Clientset, d detach.Detacher) (state, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d.Client, d.Engine, d.Clock, d.Namespaces = client, engine, clock.RealClock{}, []string{"team"}
	var results []detach.Result
	if err := d.Run(ctx, func(r detach.Result) { results = append(results, r) }); err != nil {
		t.Fatal(err)
	}
	var w gang.Workload
	jobs, err := client.BatchV1().Jobs("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := client.AppsV1().StatefulSets("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		w = gang.Workload{Job: &jobs.Items[i]}
	}
	for i := range sets.Items {
		w = gang.Workload{StatefulSet: &sets.Items[i]}
	}
	out := state{
		Inject: w.Meta().Labels[gang.LabelInject], Phase: w.Meta().Labels[gang.LabelPhase],
		Suspended: w.IsSuspended(), Ranks: w.Ranks(), Attempt: w.Template().Labels[gang.LabelAttempt],
	}
	if w.Job != nil {
		out.CompletedIndexes = w.Job.Status.CompletedIndexes
	}
	if len(results) == 0 {
		return out, nil
	}
	if len(results) > 1 {
		t.Errorf("there are %d results, want one: %v", len(results), results)
	}
	out.Outcome = results[0].Outcome
	if results[0].Err != nil {
		out.Err = results[0].Err.Error()
	}
	return out, results[0].Notes
}

func TestDetach(t *testing.T) {
	for name, c := range map[string]struct {
		objects func(t *testing.T) []runtime.Object
		kueue   bool
		dryRun  bool
		want    state
	}{
		"running Job keeps running": {
			objects: func(t *testing.T) []runtime.Object { return []runtime.Object{newRunningJob(t)} },
			want:    state{Outcome: detach.Detached, Inject: "false", Ranks: 2, Attempt: "0"},
		},
		"dry run changes nothing": {
			objects: func(t *testing.T) []runtime.Object { return []runtime.Object{newRestartingJob(t)} },
			dryRun:  true,
			want: state{Outcome: detach.Resumed, Phase: "Restarting", Suspended: true, Ranks: 2, Attempt: "0",
				CompletedIndexes: "1"},
		},
		"restarting Job is resumed with all ranks": {
			objects: func(t *testing.T) []runtime.Object { return []runtime.Object{newRestartingJob(t)} },
			want:    state{Outcome: detach.Resumed, Inject: "false", Ranks: 2, Attempt: "2"},
		},
		"restarting StatefulSet is scaled up": {
			objects: func(t *testing.T) []runtime.Object {
				return []runtime.Object{newStatefulSet(t, lifecycle.Restarting)}
			},
			want: state{Outcome: detach.Resumed, Inject: "false", Ranks: 2},
		},
		"StatefulSet without a size is not scaled up": {
			objects: func(t *testing.T) []runtime.Object {
				set := newStatefulSet(t, lifecycle.Restarting)
				set.Annotations[gang.AnnotationInjected] = "{}"
				return []runtime.Object{set}
			},
			want: state{Outcome: detach.NotDetached, Phase: "Restarting", Suspended: true,
				Err: "its size is not known; scale it up, then detach it"},
		},
		"finished StatefulSet stays scaled to 0": {
			objects: func(t *testing.T) []runtime.Object {
				return []runtime.Object{newStatefulSet(t, lifecycle.Succeeded)}
			},
			want: state{Phase: "Succeeded", Suspended: true},
		},
		"Job that its user suspended stays suspended": {
			objects: func(t *testing.T) []runtime.Object {
				job := newRunningJob(t)
				job.Spec.Suspend = ptr.To(true)
				return []runtime.Object{job}
			},
			want: state{Outcome: detach.Detached, Inject: "false", Suspended: true, Ranks: 2, Attempt: "0"},
		},
		"restarting Job waits until a succeeded pod is counted": {
			objects: func(t *testing.T) []runtime.Object {
				pod := newPod(30 * time.Second)
				pod.DeletionTimestamp, pod.Status.Phase = nil, corev1.PodSucceeded
				pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
				return []runtime.Object{newRestartingJob(t), pod}
			},
			want: state{Outcome: detach.NotDetached, Phase: "Restarting", Suspended: true, Ranks: 2, Attempt: "0",
				CompletedIndexes: "1", Err: "the Job controller has not counted all pods"},
		},
		"restarting Job waits for its pods": {
			objects: func(t *testing.T) []runtime.Object {
				return []runtime.Object{newRestartingJob(t), newPod(30 * time.Second)}
			},
			want: state{Outcome: detach.NotDetached, Phase: "Restarting", Suspended: true, Ranks: 2, Attempt: "0",
				CompletedIndexes: "1", Err: "pod train-0 of the last attempt is terminating"},
		},
		"restarting Job waits for a pod of an unreachable node that its Service selects": {
			objects: func(t *testing.T) []runtime.Object {
				return []runtime.Object{newRestartingJob(t), newPod(-30 * time.Second), newService("1")}
			},
			want: state{Outcome: detach.NotDetached, Phase: "Restarting", Suspended: true, Ranks: 2, Attempt: "0",
				CompletedIndexes: "1", Err: "pod train-0 of the last attempt may still run on the unreachable node node-1, and " +
					"ranks could connect to it; stop the node, and delete the pod by force"},
		},
		"restarting Job does not wait for a pod of an unreachable node that its Service excludes": {
			objects: func(t *testing.T) []runtime.Object {
				return []runtime.Object{newRestartingJob(t), newPod(-30 * time.Second), newService("2")}
			},
			want: state{Outcome: detach.Resumed, Inject: "false", Ranks: 2, Attempt: "2"},
		},
		"restarting Job waits for the Job controller": {
			objects: func(t *testing.T) []runtime.Object {
				job := newRestartingJob(t)
				job.Status.Conditions = nil
				return []runtime.Object{job}
			},
			want: state{Outcome: detach.NotDetached, Phase: "Restarting", Suspended: true, Ranks: 2, Attempt: "0",
				CompletedIndexes: "1", Err: "its controller has not observed the suspension"},
		},
		"Kueue resumes a Job in its queue": {
			objects: func(t *testing.T) []runtime.Object {
				job := newRestartingJob(t)
				job.Labels[gang.LabelQueueName] = "queue"
				return []runtime.Object{job}
			},
			kueue: true,
			want:  state{Outcome: detach.Queued, Inject: "false", Suspended: true, Ranks: 2, Attempt: "2"},
		},
		"without Kueue, a Job with a queue is resumed": {
			objects: func(t *testing.T) []runtime.Object {
				job := newRestartingJob(t)
				job.Labels[gang.LabelQueueName] = "queue"
				return []runtime.Object{job}
			},
			want: state{Outcome: detach.Resumed, Inject: "false", Ranks: 2, Attempt: "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the time advances only while the test waits
				client := fake.NewClientset(c.objects(t)...)
				if c.kueue {
					client.Resources = []*metav1.APIResourceList{{GroupVersion: "kueue.x-k8s.io/v1beta1"}}
				}
				got, _ := runDetach(t, client, detach.Detacher{DryRun: c.dryRun})
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("state (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDetachLimits checks that a detached Job has limits where the API permits, and that the notes name
// what has none.
func TestDetachLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(*batchv1.Job)
		wantBackoffLimit int32
		wantNotes        []string
	}{
		"a Job has the limit of its admission": {
			change:           func(*batchv1.Job) {},
			wantBackoffLimit: gang.UnlimitedBackoffLimit,
		},
		"containers that restart in their pods have no limit": {
			change:           addRestartRules,
			wantBackoffLimit: gang.UnlimitedBackoffLimit,
			wantNotes: []string{"failed containers restart in their pods without a limit; " +
				"to limit the time, set spec.activeDeadlineSeconds"},
		},
		"deadline limits the time": {
			change: func(j *batchv1.Job) {
				addRestartRules(j)
				j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
			},
			wantBackoffLimit: gang.UnlimitedBackoffLimit,
		},
		"Job of an older build gets a limit": {
			change: func(j *batchv1.Job) {
				j.Spec.BackoffLimitPerIndex, j.Spec.MaxFailedIndexes = ptr.To(gang.UnlimitedBackoffLimit), nil
				j.Spec.ActiveDeadlineSeconds, j.Status.Failed = ptr.To[int64](60), 5
			},
			wantBackoffLimit: 5 + 2*116,
			wantNotes:        []string{"set spec.backoffLimit to 237"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRunningJob(t)
			c.change(job)
			client := fake.NewClientset(job)
			_, notes := runDetach(t, client, detach.Detacher{})
			if diff := cmp.Diff(c.wantNotes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			got, err := client.BatchV1().Jobs("team").Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil || *got.Spec.BackoffLimit != c.wantBackoffLimit {
				t.Errorf("backoffLimit = %d with the error %v, want %d", *got.Spec.BackoffLimit, err, c.wantBackoffLimit)
			}
		})
	}
}

// addRestartRules makes the containers of a Job restart in their pods.
func addRestartRules(job *batchv1.Job) {
	for i := range job.Spec.Template.Spec.Containers {
		job.Spec.Template.Spec.Containers[i].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestart,
		}}
	}
}

// updateJob replaces a Job without a reaction of the client.
func updateJob(t *testing.T, client *fake.Clientset, job *batchv1.Job) {
	t.Helper()
	if err := client.Tracker().Update(batchv1.SchemeGroupVersion.WithResource("jobs"), job, "team"); err != nil {
		t.Error(err)
	}
}

// TestDetachRetriesConflict checks that a workload that a manager suspends at the same time is detached
// and resumed.
func TestDetachRetriesConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(newRunningJob(t))
		attempts := 0
		client.PrependReactor("patch", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			attempts++
			if attempts > 1 {
				return false, nil, nil
			}
			if patch := string(action.(clienttesting.PatchAction).GetPatch()); !strings.Contains(patch, `"resourceVersion"`) {
				t.Errorf("the patch is not conditional: %s", patch)
			}
			updateJob(t, client, newRestartingJob(t))
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "train", errors.New("changed"))
		})
		job, err := client.BatchV1().Jobs("team").Get(t.Context(), "train", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		job.ResourceVersion = "1"
		updateJob(t, client, job)
		want := state{Outcome: detach.Resumed, Inject: "false", Ranks: 2, Attempt: "2"}
		got, _ := runDetach(t, client, detach.Detacher{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
}

// TestDetachWaitsForRanks checks that a member whose ranks admission sets is detached when its pods exist.
func TestDetachWaitsForRanks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newRestartingJob(t)
		job.Spec.Template.Labels[gang.LabelRankOffset] = "1"
		client := fake.NewClientset(job)
		got, _ := runDetach(t, client, detach.Detacher{})
		if got.Outcome != detach.Resumed || !strings.Contains(got.Err, "its pods are not created yet") {
			t.Errorf("without pods, the result is %+v", got)
		}
		job = newRestartingJob(t)
		job.Spec.Template.Labels[gang.LabelRankOffset] = "1"
		client = fake.NewClientset(job)
		time.AfterFunc(10*time.Second, func() {
			resumed, err := client.BatchV1().Jobs("team").Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			resumed.Status.Active = 2
			updateJob(t, client, resumed)
		})
		realClock := clock.RealClock{} // synctest replaces its time
		start := realClock.Now()
		if got, _ = runDetach(t, client, detach.Detacher{}); got.Outcome != detach.Resumed || got.Err != "" {
			t.Errorf("with pods, the result is %+v", got)
		}
		if waited := realClock.Since(start).Round(time.Second); waited < 10*time.Second || waited > 12*time.Second {
			t.Errorf("the command waited %s, want 10 s", waited)
		}
	})
}

// TestDetachNames checks the selection of gangs by name.
func TestDetachNames(t *testing.T) {
	client := fake.NewClientset(newRunningJob(t))
	got, _ := runDetach(t, client, detach.Detacher{Gangs: []string{"train"}})
	if got.Outcome != detach.Detached {
		t.Errorf("the outcome is %q", got.Outcome)
	}
	d := detach.Detacher{
		Client: client, Engine: engine, Clock: clock.RealClock{}, Namespaces: []string{"team"}, Gangs: []string{"train"},
	}
	err := d.Run(t.Context(), func(r detach.Result) { t.Errorf("unexpected result %v", r) })
	if err == nil || !strings.Contains(err.Error(), `gang "train" not found`) {
		t.Errorf("a detached gang gives the error %v", err)
	}
}

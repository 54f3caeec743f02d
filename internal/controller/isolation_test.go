package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/attempt"
	"rollcall.training/internal/lifecycle"
)

// overdueTime is when the termination of the pod of newLostPod is overdue.
var overdueTime = testStartTime.Add(lostPodGracePeriod + lifecycle.TerminationTimeout)

// TestIsolation checks that a gang restarts without a pod of a lost node only if its Service publishes only the
// next attempt. Otherwise new ranks could connect to the old rank 0.
func TestIsolation(t *testing.T) {
	for name, c := range map[string]struct {
		prepare     func(*testing.T, *testCluster)
		wantAttempt string // in the selector
		wantPhase   lifecycle.Phase
	}{
		"Service selects the next attempt": {wantAttempt: "1", wantPhase: lifecycle.Pending},
		"API server rejects the change": {
			prepare: func(_ *testing.T, w *testCluster) { w.rejectServicePatches(new(bool)) }, wantPhase: lifecycle.Restarting,
		},
		"Service belongs to a user": {
			prepare: func(t *testing.T, w *testCluster) {
				service := w.getService(t, "train")
				delete(service.Labels, "app.kubernetes.io/managed-by")
				if err := w.Update(t.Context(), service); err != nil {
					t.Fatal(err)
				}
			},
			wantPhase: lifecycle.Restarting,
		},
		"Service of a user selects the next attempt": {
			prepare: func(t *testing.T, w *testCluster) {
				service := w.getService(t, "train")
				delete(service.Labels, "app.kubernetes.io/managed-by")
				service.Spec.Selector[gang.LabelAttempt] = "1"
				if err := w.Update(t.Context(), service); err != nil {
					t.Fatal(err)
				}
			},
			wantAttempt: "1", wantPhase: lifecycle.Restarting,
		},
		"Service is shared with an active gang": {
			prepare:   func(t *testing.T, w *testCluster) { w.shareService(t, batchv1.JobStatus{Active: 1}) },
			wantPhase: lifecycle.Restarting,
		},
		"Service is shared with a gang that has finished": {
			prepare: func(t *testing.T, w *testCluster) {
				complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
				w.shareService(t, batchv1.JobStatus{Conditions: []batchv1.JobCondition{complete}})
			},
			wantAttempt: "1", wantPhase: lifecycle.Pending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newRestartingJob(t)
			w := newTestCluster(t, job, newLostPod(job))
			w.reconcileOnce(t, torchRequest) // creates the Service
			if c.prepare != nil {
				c.prepare(t, w)
			}
			for after := lostPodGracePeriod; after <= 3*time.Minute; after += 10 * time.Second {
				at := testStartTime.Add(after)
				w.clock.SetTime(at)
				if _, err := w.Reconcile(t.Context(), torchRequest); err != nil {
					t.Fatal(err)
				}
				if at.Before(overdueTime) {
					w.expectJobPhase(t, "train", lifecycle.Restarting)
				}
			}
			w.expectJobPhase(t, "train", c.wantPhase)
			if got := w.getService(t, "train").Spec.Selector[gang.LabelAttempt]; got != c.wantAttempt {
				t.Errorf("the Service selects the attempt %q, want %q", got, c.wantAttempt)
			}
			_, status := w.getJob(t, "train")
			isWaiting := strings.Contains(status.Message, "until Kubernetes or an administrator confirms that the node is gone")
			if isWaiting != (c.wantPhase == lifecycle.Restarting) {
				t.Errorf("status %+v", status)
			}
		})
	}
}

// rejectServicePatches makes an admission policy deny changes of Services until the argument is true.
func (w *testCluster) rejectServicePatches(isPermitted *bool) {
	w.Reconciler.Client = interceptor.NewClient(w.Reconciler.Client.(client.WithWatch), interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
	) error {
		if _, ok := o.(*corev1.Service); ok && !*isPermitted {
			return apierrors.NewForbidden(corev1.Resource("services"), o.GetName(), errors.New("denied by a policy"))
		}
		return c.Patch(ctx, o, p, opts...)
	}})
}

// shareService makes another Job with the same gang name an owner of the Service, like a run of a CronJob.
func (w *testCluster) shareService(t *testing.T, status batchv1.JobStatus) {
	t.Helper()
	other := newTorchJob(t)
	other.Name, other.UID = "train-2", ""
	other.Spec.Template.Labels[gang.LabelGang] = "train"
	other.Status = status
	if err := w.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := w.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	service := w.getService(t, "train")
	service.OwnerReferences = append(service.OwnerReferences, metav1.OwnerReference{
		APIVersion: "batch/v1", Kind: "Job", Name: other.Name, UID: other.UID,
	})
	if err := w.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// TestIsolationOfStatefulSet checks that a gang with a StatefulSet waits: its pods do not carry the attempt.
func TestIsolationOfStatefulSet(t *testing.T) {
	launcher, workers := newLauncherJob(t), newWorkerStatefulSet(t)
	for _, o := range []gang.Workload{{Job: launcher}, {StatefulSet: workers}} {
		state := lifecycle.State{Phase: lifecycle.Restarting, LastTransitionTime: testStartTime, Restarts: 1}
		state.SuspendedByRollcall, state.MemberUIDs = true, []types.UID{launcher.UID, workers.UID}
		status := lifecycle.Status{Reason: gang.ReasonGangRestarting, State: state}
		if err := status.WriteTo(o); err != nil {
			t.Fatal(err)
		}
		attempt.Suspend(o)
	}
	launcher.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	w := newTestCluster(t, launcher, workers, newLostPod(launcher))
	for range 3 {
		w.reconcileOnce(t, trainRequest)
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
	}
	w.expectJobPhase(t, "train-launcher", lifecycle.Restarting)
	if selector := w.getService(t, "train").Spec.Selector; selector[gang.LabelAttempt] != "" {
		t.Errorf("the selector is %v", selector)
	}
}

// TestLateIsolation checks that a restart waits for EndpointSlices and DNS if the Service is limited to the next
// attempt only after the pod is overdue, and also after the controller restarts.
func TestLateIsolation(t *testing.T) {
	job := newRestartingJob(t)
	w := newTestCluster(t, job, newLostPod(job))
	w.reconcileOnce(t, torchRequest)
	w.clock.SetTime(overdueTime.Add(time.Hour))
	for range 3 { // the write of the status causes a pass
		w.reconcileOnce(t, torchRequest)
	}
	w.sessions = sessions{}
	if after := w.reconcileOnce(t, torchRequest); after != isolationDelay {
		t.Errorf("the next pass is due in %s, want %s", after, isolationDelay)
	}
	w.expectJobPhase(t, "train", lifecycle.Restarting)
	w.clock.SetTime(w.clock.Now().Add(isolationDelay))
	w.reconcileOnce(t, torchRequest)
	w.expectJobPhase(t, "train", lifecycle.Pending)
}

// TestSelectedAttempt checks which attempt the Service selects after a node was lost, and in a suspension.
func TestSelectedAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		have, template string
		phase          lifecycle.Phase
		attempt        int32
		suspended      bool
		podsGone       bool
		isNew          bool
		isUnreported   bool
		want           string
	}{
		"Service of a gang without a lost node": {phase: lifecycle.Running, template: "0"},
		"running gang keeps its attempt": {
			phase: lifecycle.Running, have: "1", template: "1", attempt: 1, want: "1",
		},
		"old ranks keep their names before a suspension": {
			phase: lifecycle.Restarting, have: "1", template: "1", attempt: 2, want: "1",
		},
		"suspended gang selects the next attempt": {
			phase: lifecycle.Restarting, have: "1", template: "1", attempt: 2, suspended: true, want: "2",
		},
		"gang that a user or a queue suspends selects the next attempt while its pods terminate": {
			phase: lifecycle.Suspended, template: "0", attempt: 1, suspended: true, want: "1",
		},
		"gang whose Job has not reported its suspension selects the next attempt": {
			phase: lifecycle.Suspended, template: "0", attempt: 1, suspended: true, isUnreported: true, want: "1",
		},
		"gang that was created suspended selects all attempts before its Job reports that": {
			phase: lifecycle.Suspended, template: "0", suspended: true, isUnreported: true, isNew: true,
		},
		"gang that was created suspended selects all attempts": {
			phase: lifecycle.Suspended, template: "0", suspended: true, podsGone: true,
		},
		"gang that is resumed selects the attempt that starts": {
			phase: lifecycle.Pending, have: "1", template: "1", attempt: 2, suspended: true, want: "2",
		},
		"gang that somebody else resumed selects the attempt of its pods": {
			phase: lifecycle.Pending, have: "2", template: "1", attempt: 2, want: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newTorchJob(t)
			job.Spec.Template.Labels[gang.LabelAttempt] = c.template
			if c.suspended {
				attempt.Suspend(gang.Workload{Job: job})
			}
			if c.suspended && !c.isUnreported {
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
			}
			r := newTestCluster(t, job).Reconciler
			m, err := r.readMember(gang.Workload{Job: job})
			if err != nil {
				t.Fatal(err)
			}
			g := newSingleWorkloadGang(t.Context(), r.newPass(torchRequest), m)
			g.observed.AllPodsTerminated, g.observed.HasPods = c.podsGone, !c.podsGone && !c.isNew
			want, have := m.Result.BuildService(), m.Result.BuildService()
			if c.have != "" {
				have.Spec.Selector = map[string]string{gang.LabelGang: "train", gang.LabelAttempt: c.have}
			}
			keepPublishedRanks(have, want)
			next := lifecycle.State{Phase: c.phase}
			next.Attempt = c.attempt
			if err := r.isolateAttempt(t.Context(), g, have, want, next); err != nil {
				t.Fatal(err)
			}
			if got := want.Spec.Selector[gang.LabelAttempt]; got != c.want {
				t.Errorf("the Service selects the attempt %q, want %q", got, c.want)
			}
		})
	}
}

// newSuspendedCluster returns a cluster with a Service and with a Job that was suspended, whose pod runs.
func newSuspendedCluster(t *testing.T) *testCluster {
	t.Helper()
	job := newRunningJob(t)
	pod := newJobPod(job, 0) // that the Job controller has not terminated yet
	pod.Labels[gang.LabelAttempt], pod.Status.Phase = "0", corev1.PodRunning
	w := newTestCluster(t, job, pod)
	w.reconcileOnce(t, torchRequest) // creates the Service
	stored, _ := w.getJob(t, "train")
	attempt.Suspend(gang.Workload{Job: stored})
	if err := w.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSuspensionCreatesService checks that a Service that was deleted selects the next attempt when it is created again
// for a suspended gang with pods.
func TestSuspensionCreatesService(t *testing.T) {
	w := newSuspendedCluster(t)
	if err := w.Delete(t.Context(), w.getService(t, "train")); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(testStartTime.Add(obstacleRetryInterval)) // until then, the Service may be missing in the cache only
	w.reconcileOnce(t, torchRequest)
	if got := w.getService(t, "train").Spec.Selector[gang.LabelAttempt]; got != "1" {
		t.Errorf("the Service selects the attempt %q, want 1", got)
	}
}

// TestSuspensionWaitsForService checks that a gang with pods is not Suspended before its Service selects the next
// attempt: the user may resume it then, and new ranks must not resolve the names of the old ones.
func TestSuspensionWaitsForService(t *testing.T) {
	w := newSuspendedCluster(t)
	expect := func(isSuspended bool, number string) {
		t.Helper()
		_, status := w.getJob(t, "train")
		selector := w.getService(t, "train").Spec.Selector
		if (status.Phase == lifecycle.Suspended) != isSuspended || selector[gang.LabelAttempt] != number {
			t.Errorf("phase %q, and the Service selects %v; want the attempt %q", status.Phase, selector, number)
		}
	}
	isPermitted := false
	w.rejectServicePatches(&isPermitted)
	for range 3 {
		if after := w.reconcileOnce(t, torchRequest); after != obstacleRetryInterval {
			t.Errorf("the next pass is due in %s, want %s", after, obstacleRetryInterval)
		}
	}
	expect(false, "")
	if n := w.countEvents(gang.ReasonRequestRejected); n != 1 {
		t.Errorf("%d Events report the rejected Service, want 1", n)
	}
	isPermitted = true
	w.reconcileOnce(t, torchRequest)
	expect(true, "1")
}

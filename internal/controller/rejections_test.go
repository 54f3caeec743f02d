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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// TestIsRejected checks which errors are reported to the user, because nothing but a change of a rule or
// of the object resolves them.
func TestIsRejected(t *testing.T) {
	jobs, kind := batchv1.Resource("jobs"), batchv1.SchemeGroupVersion.WithKind("Job").GroupKind()
	terminating := apierrors.NewForbidden(jobs, "train", errors.New("the namespace is terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                 {},
		"quota":                    {err: apierrors.NewForbidden(jobs, "train", errors.New("exceeded quota")), want: true},
		"policy":                   {err: apierrors.NewInvalid(kind, "train", nil), want: true},
		"webhook":                  {err: apierrors.NewBadRequest("admission webhook denied the request"), want: true},
		"namespace is terminating": {err: terminating},
		"stale cache":              {err: apierrors.NewConflict(jobs, "train", nil)},
		"deleted object":           {err: apierrors.NewNotFound(jobs, "train")},
		"overloaded API server":    {err: apierrors.NewTooManyRequests("later", 1)},
		"failed API server":        {err: apierrors.NewInternalError(errors.New("etcd"))},
		"lost connection":          {err: context.DeadlineExceeded},
	} {
		if got := isRejected(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRejectedChild checks that a rejected Service is reported in the status and by one Event, that the
// request is repeated at intervals, and that the report disappears with the obstacle.
func TestRejectedChild(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
	hasQuota, creates := false, 0
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Service); ok && !hasQuota {
				creates++
				return apierrors.NewForbidden(corev1.Resource("services"), o.GetName(), errors.New("exceeded quota: team"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
	for range 60 {
		if after := w.reconcileOnce(t, trainRequest); after <= 0 || after > obstacleRetryInterval {
			t.Fatalf("the next pass is due in %s", after)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	_, status := w.getJob(t, "train-launcher")
	if status.Reason != gang.ReasonRequestRejected || status.Phase != lifecycle.Pending ||
		!strings.Contains(status.Message, "Service train") || !strings.Contains(status.Message, "exceeded quota: team") {
		t.Errorf("status %+v", status)
	}
	if creates != 2 {
		t.Errorf("%d create requests in a minute, want 2", creates)
	}
	if n := w.countEvents(gang.ReasonRequestRejected); n != 2 {
		t.Errorf("%d Events, want one for each member", n)
	}
	hasQuota = true
	w.clock.SetTime(w.clock.Now().Add(obstacleRetryInterval))
	w.reconcileOnce(t, trainRequest)
	if _, status := w.getJob(t, "train-launcher"); status.Reason != gang.ReasonGangPending {
		t.Errorf("after the quota was raised, the status is %+v", status)
	}
}

// TestRejectedUpdate checks that a member whose suspension is rejected reports that once, that the other
// members stay as they are, and that the restart continues when the policy permits the change.
func TestRejectedUpdate(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	w := newTestCluster(t, master, worker)
	w.reconcileOnce(t, trainRequest)
	isPermitted := false
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if _, ok := o.(*batchv1.Job); ok && !isPermitted {
				return apierrors.NewForbidden(batchv1.Resource("jobs"), o.GetName(), errors.New("denied by the policy no-suspend"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	failed, _ := w.getJob(t, "train-worker")
	failed.Status.Failed = 1
	if err := w.Status().Update(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if after := w.reconcileOnce(t, trainRequest); after <= 0 || after > obstacleRetryInterval {
			t.Fatalf("the next pass is due in %s", after)
		}
	}
	_, status := w.getJob(t, "train-master")
	if status.Reason != gang.ReasonRequestRejected || status.Phase != lifecycle.Running || status.Restarts != 0 ||
		!strings.Contains(status.Message, "denied by the policy no-suspend") {
		t.Errorf("status %+v", status)
	}
	if _, status := w.getJob(t, "train-worker"); status.Reason != gang.ReasonGangRunning {
		t.Errorf("the other member has the status %+v", status)
	}
	if n := w.countEvents(gang.ReasonRequestRejected); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
	isPermitted = true
	w.reconcileOnce(t, trainRequest)
	for _, name := range []string{"train-master", "train-worker"} {
		job, status := w.getJob(t, name)
		if status.Phase != lifecycle.Restarting || status.Disruptions != 1 || !ptr.Deref(job.Spec.Suspend, false) {
			t.Errorf("%s: status %+v", name, status)
		}
	}
}

// TestRejectedStatus checks that a rejected status, which cannot contain the report, is reported by one
// Event.
func TestRejectedStatus(t *testing.T) {
	master, worker := newMasterAndWorkers(t)
	w := newTestCluster(t, master, worker)
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(
			context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
		) error {
			return apierrors.NewForbidden(batchv1.Resource("jobs"), "train-master", errors.New("denied by a policy"))
		},
	})
	for range 3 {
		if _, err := w.Reconcile(t.Context(), trainRequest); !isRejected(err) {
			t.Errorf("the pass returned %v", err)
		}
	}
	if n := w.countEvents(gang.ReasonRequestRejected); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
}

// TestRejectedCleanUp checks that a manager without permission to delete pods reports that once, and repeats
// the request rarely and without an error.
func TestRejectedCleanUp(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
	j.Annotations = map[string]string{gang.AnnotationCleanPodPolicy: "all"}
	done := admitObject(t, j).(*batchv1.Job)
	done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	w := newTestCluster(t, done, newJobPod(done, 0))
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("cannot deletecollection"))
		},
	})
	request := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	w.reconcileOnce(t, request) // writes the result
	for range 3 {
		if after := w.reconcileOnce(t, request); after != cleanUpRetryInterval {
			t.Errorf("the next pass is due in %s, want %s", after, cleanUpRetryInterval)
		}
	}
	if n := w.countEvents(gang.ReasonRequestRejected); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
}

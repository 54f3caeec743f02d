package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
	"rollcall.training/internal/testing/podtest"
)

// patchMetadata applies a patch of the status to the object: the API server changes finalizers by such a
// patch, and the fake client does not.
func patchMetadata(
	ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	return c.Patch(ctx, o, patch)
}

// TestUntrackDeletedPods checks that one deleted pod does not count when its gang starts to restart or fails, or when
// another member is suspended, and that its other finalizers stay.
func TestUntrackDeletedPods(t *testing.T) {
	for name, c := range map[string]struct {
		next      lifecycle.Phase
		reason    string // of the condition DisruptionTarget; empty for none
		policy    gang.RestartPolicy
		untracked bool
	}{
		"gang restarts":      {next: lifecycle.Restarting, untracked: true},
		"gang fails":         {next: lifecycle.Failed, untracked: true},
		"gang keeps running": {next: lifecycle.Running},
		"pod is drained while another member is suspended": {
			next: lifecycle.Suspended, reason: "EvictionByEvictionAPI", untracked: true,
		},
		"pod is drained while another member is suspended, and its Job replaces single pods": {
			next: lifecycle.Suspended, reason: "EvictionByEvictionAPI",
			policy: gang.RestartPolicyPod,
		},
		"pod that the suspension deletes": {next: lifecycle.Suspended},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podtest.RankPod(1, podtest.Drained)
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&pod).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: patchMetadata}).Build()}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: c.reason,
			})
			result := &injectors.Result{Gang: gang.Gang{RestartRules: gang.RestartRules{RestartPolicy: c.policy}}}
			m := member{Member: roster.Member{Workload: gang.Workload{Job: &batchv1.Job{}}, Result: result}}
			m.observed.PodsToUntrack = []*corev1.Pod{&pod}
			m.Job.Namespace = pod.Namespace
			err := r.untrackDeletedPods(t.Context(), &observedGang{pass: &pass{session: &session{}}}, m, c.next)
			if err != nil {
				t.Fatal(err)
			}
			var have corev1.Pod
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(&pod), &have); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(pod.Finalizers)
			if c.untracked {
				want = []string{"example.com/keep"}
			}
			if diff := cmp.Diff(want, have.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUntrackDeletedPodsAgain checks that a deleted pod of a member that is not the first is untracked, if a
// write of the pass that decides to restart the gang fails.
func TestUntrackDeletedPodsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		workerErr, podErr error
	}{
		"the Job controller changed the Job": {
			workerErr: apierrors.NewConflict(batchv1.Resource("jobs"), "train-worker", nil),
		},
		"the patch of the pod failed": {podErr: apierrors.NewInternalError(errors.New("etcd"))},
		"the patch of the pod was rejected": {
			podErr: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("denied by a policy")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			master, worker := newMasterAndWorkers(t)
			pod := newJobPod(worker, 0)
			pod.Status.Phase, pod.Finalizers = corev1.PodRunning, []string{batchv1.JobTrackingFinalizer}
			w := newTestCluster(t, master, worker, pod)
			w.reconcileOnce(t, trainRequest)
			if err := w.Delete(t.Context(), pod); err != nil { // the finalizer keeps the pod
				t.Fatal(err)
			}
			w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				Patch: func(
					ctx context.Context, client client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
				) error {
					if o.GetName() == "train-worker" && c.workerErr != nil {
						err := c.workerErr
						c.workerErr = nil
						return err
					}
					return client.Patch(ctx, o, p, opts...)
				},
				SubResourcePatch: func(
					ctx context.Context, client client.Client, name string, o client.Object, p client.Patch,
					opts ...client.SubResourcePatchOption,
				) error {
					if _, isPod := o.(*corev1.Pod); isPod && c.podErr != nil {
						err := c.podErr
						c.podErr = nil
						return err
					}
					return client.SubResource(name).Patch(ctx, o, p, opts...)
				},
			})
			for range 3 {
				_, _ = w.Reconcile(t.Context(), trainRequest) // the first pass fails
			}
			if _, status := w.getJob(t, "train-worker"); status.Phase != lifecycle.Restarting {
				t.Fatalf("the worker is %s", status.Phase)
			}
			if c.workerErr != nil || c.podErr != nil {
				t.Fatal("no write failed")
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
				t.Errorf("the pod has the finalizers %q; %v", pod.Finalizers, err)
			}
		})
	}
}

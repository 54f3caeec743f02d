package controller

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/testing/podtest"
)

// newResizedStatefulSet returns a StatefulSet of two ranks that its user scaled to three replicas.
func newResizedStatefulSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	about := newObjectMeta("train", "pytorch", "", "")
	delete(about.Labels, gang.LabelRole)
	set := admitObject(t, &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](2), Template: *podTemplate.DeepCopy(),
	}}).(*appsv1.StatefulSet)
	set.Spec.Replicas = ptr.To[int32](3)
	set.Status = appsv1.StatefulSetStatus{ReadyReplicas: 3, Replicas: 3, CurrentRevision: "a", UpdateRevision: "a"}
	return set
}

// TestRejectedResize checks that a gang whose resize was rejected restarts after a failure of a rank, and
// that the request is repeated rarely.
func TestRejectedResize(t *testing.T) {
	fail := func(pod *corev1.Pod) {
		podtest.Terminated(1, 10, true)(pod)
		podtest.OfStatefulSet(pod)
	}
	for name, c := range map[string]struct {
		failedIndex int
		replaced    bool
		err         error // the default is a denial of Rollcall
		want        lifecycle.Phase
	}{
		"rank fails after another policy denied the resize": {
			failedIndex: 1, want: lifecycle.Restarting,
			err: apierrors.NewForbidden(appsv1.Resource("statefulsets"), "train", errors.New("denied by a policy")),
		},
		"rank fails after another webhook denied the resize": {
			failedIndex: 1, want: lifecycle.Restarting,
			err: apierrors.NewBadRequest("admission webhook denied the request"),
		},
		"rank fails":                     {failedIndex: 1, want: lifecycle.Restarting},
		"rank is replaced":               {failedIndex: 1, replaced: true, want: lifecycle.Restarting},
		"pod without a rank fails":       {failedIndex: 2, want: lifecycle.Running},
		"pod without a rank is replaced": {failedIndex: 2, replaced: true, want: lifecycle.Running},
	} {
		t.Run(name, func(t *testing.T) {
			set := newResizedStatefulSet(t)
			w := newTestCluster(t, set,
				newStatefulSetPod(set, 0, "a"), newStatefulSetPod(set, 1, "b"), newStatefulSetPod(set, 2, "c"))
			kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
			requests := w.answerResizes(cmp.Or[error](c.err, apierrors.NewInvalid(kind, "train", nil)))
			req := Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
			w.clock.SetTime(podtest.At(5))
			for range 3 {
				if after := w.reconcileOnce(t, req); after != obstacleRetryInterval {
					t.Errorf("the next pass is due in %s, want %s", after, obstacleRetryInterval)
				}
			}
			if n := w.countEvents(gang.ReasonResizeRejected); n != 1 || *requests != 1 {
				t.Errorf("%d Events and %d requests, want one each", n, *requests)
			}
			pod := newStatefulSetPod(set, c.failedIndex, "d")
			if err := w.Delete(t.Context(), pod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if !c.replaced {
				fail(pod)
			}
			if err := w.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.clock.SetTime(podtest.At(5).Add(obstacleRetryInterval + time.Second))
			w.reconcileOnce(t, req)
			if status := w.readStatefulSetStatus(t, set); status.Phase != c.want {
				t.Errorf("the gang is %s after %v, want %s", status.Phase, status.FirstFailure, c.want)
			}
			if n := w.countEvents(gang.ReasonResizeRejected); n != 0 {
				t.Errorf("%d Events after the request was repeated, want none", n)
			}
		})
	}
}

// TestRevertedResize checks that a resize is reverted only if the policy enforces a limit that the new size violates
// and the recorded size does not, and that the gang keeps running.
func TestRevertedResize(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		want   int32
	}{
		"the new size violates a limit":      {policy: "cluster: {limits: {size: {max: 2}}}", want: 2},
		"the recorded size violates it, too": {policy: "cluster: {limits: {size: {max: 1}}}", want: 2},
		"the limit warns":                    {policy: "cluster: {limits: {size: {max: 2, mode: warn}}}", want: 3},
		"another webhook denied the size":    {policy: "cluster: {limits: {size: {max: 3}}}", want: 3},
		"a rule reads a label of the user": {
			policy: "cluster: {rules: [{name: small, expression: \"gang.size <= 2\", " +
				"when: \"gang.labels[?'team'].orValue('') == 'a'\"}]}",
			want: 2,
		},
		"both sizes violate another limit": {policy: "cluster: {limits: {frameworks: {deny: [pytorch]}}}", want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			set := newResizedStatefulSet(t)
			w := newTestCluster(t, set,
				newStatefulSetPod(set, 0, "a"), newStatefulSetPod(set, 1, "b"), newStatefulSetPod(set, 2, "c"))
			w.Policy = &testPolicies{policy: readPolicy(t, c.policy)}
			whole := set.DeepCopy() // the cache contains no labels of users
			whole.Labels["team"] = "a"
			w.APIReader = fake.NewClientBuilder().WithObjects(whole).Build()
			kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
			w.answerResizes(apierrors.NewInvalid(kind, "train", nil))
			req := Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
			w.clock.SetTime(podtest.At(5))
			w.reconcileOnce(t, req)
			if err := w.Delete(t.Context(), newStatefulSetPod(set, 2, "c")); err != nil {
				t.Fatal(err)
			}
			w.reconcileOnce(t, req)
			var got appsv1.StatefulSet
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), &got); err != nil {
				t.Fatal(err)
			}
			if *got.Spec.Replicas != c.want {
				t.Errorf("%d replicas, want %d", *got.Spec.Replicas, c.want)
			}
			if n := w.countEvents(gang.ReasonResizeRejected); n != 1 {
				t.Errorf("%d Events, want 1", n)
			}
			if s := lifecycle.ReadStatus(gang.Workload{StatefulSet: &got}); s.FirstFailure != nil || s.Restarts != 0 {
				t.Errorf("the gang has restarted: %+v", s)
			}
		})
	}
}

// TestRevertedFirstOrUnjudgedResize checks that a size that describes no gang, and a first size, are reverted if the
// policy can deny them.
func TestRevertedFirstOrUnjudgedResize(t *testing.T) {
	const limit = "cluster: {limits: {size: {max: 4}}}"
	for name, c := range map[string]struct {
		policy            *policy.Policy
		roles             string
		created, to, want int32
	}{
		"the size is not the one of the role":       {readPolicy(t, limit), "master=1,worker=2", 2, 50, 2},
		"the first size is not the one of the role": {readPolicy(t, limit), "master=1,worker=2", 0, 50, 0},
		"the first size violates the limit":         {readPolicy(t, limit), "", 0, 50, 0},
		"the first size violates another limit": {
			readPolicy(t, "cluster: {limits: {frameworks: {deny: [pytorch]}}}"), "", 0, 2, 0,
		},
		"the size is above the maximum of Rollcall": {readPolicy(t, limit), "", 2, gang.MaxPods + 1, 2},
		"the policy cannot deny": {
			readPolicy(t, limit).WithCeiling(policy.ModeWarn), "master=1,worker=2", 2, 50, 50,
		},
		"there is no policy": {nil, "master=1,worker=2", 2, 50, 50},
	} {
		t.Run(name, func(t *testing.T) {
			about, req := newObjectMeta("train-worker", "pytorch", "worker", c.roles), trainRequest
			if c.roles == "" {
				req = Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
				about = newObjectMeta("train", "pytorch", "", "")
				delete(about.Labels, gang.LabelRole)
			}
			set := admitObject(t, &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
				Replicas: &c.created, Template: *podTemplate.DeepCopy(),
			}}).(*appsv1.StatefulSet)
			set.Spec.Replicas = &c.to
			w := newTestCluster(t, set)
			w.Policy = &testPolicies{policy: c.policy}
			kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
			w.answerResizes(apierrors.NewInvalid(kind, "train", nil))
			w.clock.SetTime(podtest.At(5))
			w.reconcileOnce(t, req)
			var got appsv1.StatefulSet
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(set), &got); err != nil {
				t.Fatal(err)
			}
			if *got.Spec.Replicas != c.want {
				t.Errorf("%d replicas, want %d", *got.Spec.Replicas, c.want)
			}
		})
	}
}

// answerResizes makes the API server answer each request to inject a StatefulSet again with an error, or
// without an effect for a nil error. It returns the number of requests.
func (w *testCluster) answerResizes(err error) *int {
	requests := 0
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Patch: func(
		ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
	) error {
		if data, dataErr := p.Data(o); dataErr == nil && string(data) == "{}" {
			requests++
			return err
		}
		return c.Patch(ctx, o, p, opts...)
	}})
	return &requests
}

// TestResizeAfterRejection checks that another size than the rejected one is rolled out.
func TestResizeAfterRejection(t *testing.T) {
	set := newResizedStatefulSet(t)
	w := gang.Workload{StatefulSet: set}
	s := &session{}
	put(&s.resizes, set.UID, resizeRequest{size: 3, timeoutTime: testStartTime})
	if !s.isResizeOverdue(w, testStartTime) {
		t.Error("a rejected resize is rolled out")
	}
	set.Spec.Replicas = ptr.To[int32](4)
	if s.isResizeOverdue(w, testStartTime) {
		t.Error("another size is not rolled out")
	}
}

// TestSlowResize checks that a failure during a resize restarts the gang only if the resize has no result for
// seconds, whether the request fails or has no effect.
func TestSlowResize(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		want  lifecycle.Phase
	}{
		"webhook does not answer, and the failure is recent": {
			err: apierrors.NewInternalError(errors.New("failed calling webhook")), after: time.Second, want: lifecycle.Running,
		},
		"webhook does not answer for seconds": {
			err: apierrors.NewInternalError(errors.New("failed calling webhook")), after: resizeTimeout,
			want: lifecycle.Restarting,
		},
		"request has no effect, and the failure is recent": {after: time.Second, want: lifecycle.Running},
		"request has no effect for seconds":                {after: resizeTimeout, want: lifecycle.Restarting},
	} {
		t.Run(name, func(t *testing.T) {
			set := newResizedStatefulSet(t)
			failed := newStatefulSetPod(set, 1, "b")
			podtest.Terminated(1, 10, true)(failed)
			w := newTestCluster(t, set, newStatefulSetPod(set, 0, "a"), failed)
			w.answerResizes(c.err)
			req := Request{Namespace: "team", Kind: gang.StatefulSet, Name: "train"}
			w.clock.SetTime(podtest.At(20))
			result, err := w.Reconcile(t.Context(), req)
			if err == nil && result.RequeueAfter != resizeTimeout {
				t.Errorf("the next pass is due in %s, want %s", result.RequeueAfter, resizeTimeout)
			}
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			w.clock.SetTime(podtest.At(20).Add(c.after))
			_, _ = w.Reconcile(t.Context(), req)
			if status := w.readStatefulSetStatus(t, set); status.Phase != c.want {
				t.Errorf("the gang is %s after %v, want %s", status.Phase, status.FirstFailure, c.want)
			}
		})
	}
}

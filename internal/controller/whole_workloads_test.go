package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// newSetsWithClaims returns the StatefulSets of a gang, each with many small volumeClaimTemplates, and its request.
func newSetsWithClaims(t *testing.T, sets, claims int) ([]client.Object, Request) {
	t.Helper()
	roles := make([]string, sets)
	for i := range roles {
		roles[i] = fmt.Sprintf("r%d=1", i)
	}
	var objects []client.Object
	for i := range sets {
		name := fmt.Sprintf("train-r%d", i)
		set := &appsv1.StatefulSet{ObjectMeta: newObjectMeta(name, "generic", fmt.Sprintf("r%d", i), "")}
		set.Annotations = map[string]string{gang.AnnotationRoles: strings.Join(roles, ",")}
		set.Spec = appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Template: *podTemplate.DeepCopy()}
		admitObject(t, set)
		for j := range claims {
			one := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1")}
			claim := corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Limits: one, Requests: one.DeepCopy()},
				VolumeMode:  ptr.To(corev1.PersistentVolumeFilesystem), // from here on, the API server sets the fields
			}}
			claim.Name, claim.Kind, claim.APIVersion = fmt.Sprintf("a%d", j), "PersistentVolumeClaim", "v1"
			claim.Status.Phase = corev1.ClaimPending
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, claim)
		}
		objects = append(objects, set)
	}
	return objects, Request{Namespace: "team", Gang: "train"}
}

// readSetStatus returns the status of a StatefulSet.
func (w *testCluster) readSetStatus(t *testing.T, name string) lifecycle.Status {
	t.Helper()
	var set appsv1.StatefulSet
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &set); err != nil {
		t.Fatal(err)
	}
	return lifecycle.ReadStatus(gang.Workload{StatefulSet: &set})
}

// TestAttackWholeWorkloads checks that a pass does not keep whole workloads beyond a bound, and reports a gang that
// exceeds it.
func TestAttackWholeWorkloads(t *testing.T) {
	for name, test := range map[string]struct {
		sets, claims, maxReads int
		message                string
	}{
		"a gang of ordinary workloads is compared": {sets: 12, claims: 2, maxReads: 12},
		"a gang of workloads that need too much memory is not compared": {
			sets: 8, claims: 2700, maxReads: 6, message: "cannot be compared with the policy of the cluster: its workloads " +
				"need more than 16 MiB of memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, req := newSetsWithClaims(t, test.sets, test.claims)
			w := newTestCluster(t, objects...)
			reader := &countingReader{Reader: w.APIReader}
			w.APIReader = reader
			w.Policy = &testPolicies{policy: readPolicy(t, "cluster: {limits: {size: {max: 64}}}")}
			w.reconcileOnce(t, req)
			if reader.reads > test.maxReads {
				t.Errorf("%d reads, want at most %d", reader.reads, test.maxReads)
			}
			s := w.readSetStatus(t, "train-r0")
			if (s.Reason == gang.ReasonPolicyViolated) != (test.message != "") || !strings.Contains(s.Message, test.message) {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}

// TestAttackConcurrentJudgments checks that no other pass keeps whole workloads while that of a large gang does.
func TestAttackConcurrentJudgments(t *testing.T) {
	objects, req := newSetsWithClaims(t, maxConcurrentReconciles, 1)
	w := newTestCluster(t, objects...)
	w.Policy = &testPolicies{policy: readPolicy(t, "cluster: {limits: {size: {max: 64}}}")}
	reads := 0
	w.APIReader = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
	) error {
		if reads++; wholeReads.TryAcquire(1) {
			t.Error("another pass can read whole workloads")
		}
		return c.Get(ctx, key, o, opts...)
	}})
	w.reconcileOnce(t, req)
	if reads != maxConcurrentReconciles {
		t.Errorf("%d reads", reads)
	}
}

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// The tests of this package cover what a real API server and its controllers do too rarely or too
// slowly. test/integration covers the rest.

var testStartTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCluster is a Reconciler with a fake client that stores objects.
type testCluster struct {
	*Reconciler
	client.Client
	clock         *clocktesting.FakePassiveClock
	secretCreates int // number of create requests for Secrets
}

// fakeIndexer registers the indexes of the cache with the fake client.
type fakeIndexer struct{ *fake.ClientBuilder }

func (i fakeIndexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

func newTestCluster(t testing.TB, objects ...client.Object) *testCluster {
	t.Helper()
	w := &testCluster{clock: clocktesting.NewFakePassiveClock(testStartTime)}
	b := fake.NewClientBuilder().WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
			return []string{
				string(o.(*corev1.Pod).Status.Phase),
			}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, ok := o.(*corev1.Secret); ok {
					w.secretCreates++
				}
				o.SetUID(types.UID(fmt.Sprintf("%T %s", o, o.GetName())))
				o.SetCreationTimestamp(metav1.NewTime(w.clock.Now()))
				return c.Create(ctx, o, opts...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch,
				_ ...client.SubResourcePatchOption,
			) error {
				job, isJob := o.DeepCopyObject().(*batchv1.Job)
				if err := c.Patch(ctx, o, p); err != nil || !isJob { // a real API server patches metadata too
					return err
				}
				job.ResourceVersion = o.GetResourceVersion()
				return c.Status().Update(ctx, job)
			},
		})
	w.Reconciler = &Reconciler{Engine: testEngine, Recorder: events.NewFakeRecorder(1000), Clock: w.clock}
	if err := w.RegisterIndexes(t.Context(), fakeIndexer{b}); err != nil {
		t.Fatal(err)
	}
	w.Client = b.Build()
	w.Reconciler.Client, w.APIReader = readTrimmedServices(w.Client), w.Client
	return w
}

// readTrimmedServices returns a client that reads Services as the cache contains them.
func readTrimmedServices(c client.Client) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
	) error {
		if err := c.Get(ctx, key, o, opts...); err != nil {
			return err
		}
		service, ok := o.(*corev1.Service)
		if !ok {
			return nil
		}
		trimmed, err := TrimService(service.DeepCopy())
		if err == nil {
			*service = *trimmed.(*corev1.Service)
		}
		return err
	}})
}

var testEngine = injectors.NewEngine(injectors.Builtin(), gang.Config{})

// admitObject returns an object as admission changes it.
func admitObject(t testing.TB, o client.Object) client.Object {
	t.Helper()
	w, err := gang.WorkloadOf(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testEngine.Admit(w); err != nil {
		t.Fatal(err)
	}
	return o
}

func newObjectMeta(name, framework, role, roles string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace:         "team",
		Name:              name,
		UID:               types.UID(name),
		CreationTimestamp: metav1.NewTime(testStartTime),
		Labels:            map[string]string{gang.LabelFramework: framework, gang.LabelRole: role},
	}
	if roles != "" {
		out.Annotations = map[string]string{gang.AnnotationRoles: roles, gang.AnnotationSlotsPerWorker: "1"}
	}
	return out
}

var podTemplate = corev1.PodTemplateSpec{
	Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}},
}

func singlePodJobSpec() batchv1.JobSpec {
	return batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), Template: *podTemplate.DeepCopy()}
}

func newLauncherJob(t *testing.T) *batchv1.Job {
	t.Helper()
	return admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train-launcher", "mpi", "launcher", "launcher=1,worker=3"),
		Spec:       singlePodJobSpec(),
	}).(*batchv1.Job)
}

func newWorkerStatefulSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	return admitObject(t, &appsv1.StatefulSet{
		ObjectMeta: newObjectMeta("train-worker", "mpi", "worker", "launcher=1,worker=3"),
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *podTemplate.DeepCopy()},
	}).(*appsv1.StatefulSet)
}

var trainRequest = Request{Namespace: "team", Gang: "train"}

// reconcileOnce runs one pass and returns the delay before the next pass.
func (w *testCluster) reconcileOnce(t *testing.T, req Request) time.Duration {
	t.Helper()
	result, err := w.Reconcile(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

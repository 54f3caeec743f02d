package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"rollcall.training/injectors/ssh"
	"rollcall.training/internal/lifecycle"
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
	if err := w.registerIndexes(t.Context(), fakeIndexer{b}); err != nil {
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

// TestKeyPairSecretConflict checks that the create request of a conflicting Secret is repeated
// with increasing delays, however often the gang changes, and that the Secret of the gang is
// created once.
func TestKeyPairSecretConflict(t *testing.T) {
	conflicting := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-rollcall-ssh"}}
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t), conflicting)
	for range 360 {
		if after := w.reconcileOnce(t, trainRequest); after <= 0 || after > 5*time.Minute {
			t.Fatalf("after %s, the next pass is due in %s", w.clock.Since(testStartTime), after)
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	}
	if w.secretCreates < 10 || w.secretCreates > 40 {
		t.Errorf("%d create requests in an hour", w.secretCreates)
	}
	if err := w.Delete(t.Context(), conflicting); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	before := w.secretCreates
	for range 10 {
		w.reconcileOnce(t, trainRequest)
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
	}
	if w.secretCreates != before+1 {
		t.Errorf("the Secret of the gang was created %d times", w.secretCreates-before)
	}
}

// TestKeyPairNotNeeded checks that no Secret is created for a gang that does not need a key pair.
func TestKeyPairNotNeeded(t *testing.T) {
	suspended := newLauncherJob(t)
	suspended.Spec.Suspend = ptr.To(true)
	running := newWorkerStatefulSet(t)
	running.Status.ReadyReplicas = 3
	ready := newLauncherJob(t)
	ready.Status.Ready = ptr.To[int32](1)
	torch := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train-master", "pytorch", "master", "master=1,worker=3"),
		Spec:       singlePodJobSpec(),
	})
	for name, objects := range map[string][]client.Object{
		"suspended gang": {suspended, newWorkerStatefulSet(t)},
		"running gang, whose pods have mounted the Secret": {ready, running},
		"framework without a key pair":                     {torch},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, objects...)
			w.reconcileOnce(t, trainRequest)
			if w.secretCreates != 0 {
				t.Error("a Secret was created")
			}
		})
	}
}

// TestSessionForgotten checks that the session of a deleted gang is dropped.
func TestSessionForgotten(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
	w.reconcileOnce(t, trainRequest)
	for _, o := range []client.Object{newLauncherJob(t), newWorkerStatefulSet(t)} {
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcileOnce(t, trainRequest)
	if len(w.sessions.byRequest) > 0 {
		t.Errorf("remaining sessions: %v", w.sessions.byRequest)
	}
}

func TestCheckWorkersReached(t *testing.T) {
	newLauncherPod := func(state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-launcher-0", Labels: map[string]string{
				gang.LabelGang: "train", gang.LabelRole: "launcher", batchv1.ControllerUidLabel: "train-launcher"}},
			Status: corev1.PodStatus{
				Phase:                 corev1.PodSucceeded,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: ssh.MonitorContainerName, State: state}},
			},
		}
	}
	ended := func(message string) *corev1.Pod {
		return newLauncherPod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}})
	}
	failed := ended("reached=0")
	failed.Status.Phase = corev1.PodFailed
	other := ended("reached=0")
	other.Labels[batchv1.ControllerUidLabel] = "of an earlier gang"
	plain := ended("")
	plain.Status.InitContainerStatuses = nil
	for name, c := range map[string]struct {
		pod        *corev1.Pod
		want       gang.Reason
		wantPasses int
	}{
		"no worker was reached": {pod: ended("reached=0\n"), want: gang.ReasonWorkersNotReached, wantPasses: 1},
		"one of three workers was reached": {
			pod:        ended("reached=1\n"),
			want:       gang.ReasonWorkersNotReached,
			wantPasses: 1,
		},
		"two of three workers were reached": {
			pod:        ended("reached=2\n"),
			want:       gang.ReasonGangSucceeded,
			wantPasses: 1,
		},
		"all workers were reached": {pod: ended("reached=3\n"), want: gang.ReasonGangSucceeded, wantPasses: 1},
		"monitor left no report":   {pod: ended("Error"), want: gang.ReasonGangSucceeded, wantPasses: 1},
		"monitor does not terminate": {
			pod:        newLauncherPod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			want:       gang.ReasonGangSucceeded,
			wantPasses: 4,
		},
		"pod has no monitor":                 {pod: plain, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod of a failed attempt is ignored": {pod: failed, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod of another Job is ignored":      {pod: other, want: gang.ReasonGangSucceeded, wantPasses: 1},
		"pod was deleted":                    {want: gang.ReasonGangSucceeded, wantPasses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			done := newLauncherJob(t)
			done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			objects := []client.Object{done, newWorkerStatefulSet(t)}
			if c.pod != nil {
				objects = append(objects, c.pod)
			}
			w := newTestCluster(t, objects...)
			passes := 1
			for ; w.reconcileOnce(t, trainRequest) > 0; passes++ {
				w.clock.SetTime(w.clock.Now().Add(hostReportReadInterval))
			}
			if passes != c.wantPasses {
				t.Errorf("%d passes, want %d", passes, c.wantPasses)
			}
			for _, o := range []client.Object{&batchv1.Job{}, &appsv1.StatefulSet{}} {
				name := "train-launcher"
				if _, ok := o.(*appsv1.StatefulSet); ok {
					name = "train-worker"
				}
				if err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, o); err != nil {
					t.Fatal(err)
				}
				member, _ := gang.WorkloadOf(o)
				if s := lifecycle.ReadStatus(member); s.Phase != lifecycle.Succeeded || s.Reason != c.want {
					t.Errorf("%s has the status %+v, want %s", name, s, c.want)
				}
				version := o.GetResourceVersion()
				w.reconcileOnce(t, trainRequest)
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetResourceVersion() != version {
					t.Errorf("another pass wrote to %s, %v", name, err)
				}
			}
		})
	}
}

func TestRequestsForWorkload(t *testing.T) {
	run := func(name string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: newObjectMeta(name, "pytorch", "worker", ""), Spec: singlePodJobSpec()}
		j.Labels[gang.LabelGang] = "nightly"
		return admitObject(t, j).(*batchv1.Job)
	}
	forgotten := admitObject(t, &appsv1.StatefulSet{ObjectMeta: newObjectMeta("train-worker", "pytorch", "worker", ""),
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *podTemplate.DeepCopy()}})
	first, second := run("nightly-1"), run("nightly-2")
	singleWorkload := func(name string, kind gang.Kind) Request {
		return Request{
			Namespace: "team",
			Kind:      kind,
			Name:      name,
		}
	}
	for name, c := range map[string]struct {
		existing []client.Object
		changed  client.Object
		want     []Request
	}{
		"member of a multi-workload gang": {
			existing: []client.Object{newLauncherJob(t), newWorkerStatefulSet(t)},
			changed:  newWorkerStatefulSet(t),
			want:     []Request{trainRequest},
		},
		"deleted member": {
			existing: []client.Object{newWorkerStatefulSet(t)},
			changed:  newLauncherJob(t),
			want:     []Request{trainRequest},
		},
		"run of a CronJob does not affect the other runs": {
			existing: []client.Object{first, second},
			changed:  first,
			want:     []Request{singleWorkload("nightly-1", gang.Job)},
		},
		"workload without roles affects the gang that misses it": {
			existing: []client.Object{newLauncherJob(t), forgotten},
			changed:  forgotten,
			want:     []Request{singleWorkload("train-worker", gang.StatefulSet), trainRequest},
		},
		"workload with the name of a member that no gang misses": {
			existing: []client.Object{forgotten},
			changed:  forgotten,
			want:     []Request{singleWorkload("train-worker", gang.StatefulSet)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t, c.existing...)
			if diff := cmp.Diff(c.want, w.requestsForWorkload(t.Context(), c.changed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team",
			Name:      "nightly",
			Labels:    map[string]string{gang.LabelGang: "nightly"},
		},
	}
	got := newTestCluster(t, first, second).requestsForService(t.Context(), service)
	if !slices.Contains(
		got,
		singleWorkload("nightly-1", gang.Job),
	) || !slices.Contains(got, singleWorkload("nightly-2", gang.Job)) || len(got) != 2 {
		t.Errorf("requests for a deleted Service: %v", got)
	}
}

func TestRetryInterval(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Minute: 15 * time.Second, 24 * time.Hour: 5 * time.Minute, -time.Hour: 2 * time.Second,
	} {
		if got := retryInterval(age); got != want {
			t.Errorf("age %s: %s, want %s", age, got, want)
		}
	}
}

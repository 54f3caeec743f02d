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
)

// These tests are about what a real API server and its controllers do too rarely, or too slowly, to wait for. What they
// do every day is in test/integration.

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a Reconciler over a client that only keeps objects.
type world struct {
	*Reconciler
	client.Client
	clock   *clocktesting.FakePassiveClock
	secrets int // how often one was to be created
}

// indexes collects what the Reconciler would have the cache index.
type indexes struct{ *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakePassiveClock(began)}
	b := fake.NewClientBuilder().WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string { return []string{string(o.(*corev1.Pod).Status.Phase)} }).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				w.secrets++
			}
			o.SetUID(types.UID(fmt.Sprintf("%T %s", o, o.GetName())))
			o.SetCreationTimestamp(metav1.NewTime(w.clock.Now()))
			return c.Create(ctx, o, opts...)
		}, SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			job, isJob := o.DeepCopyObject().(*batchv1.Job)
			if err := c.Patch(ctx, o, p); err != nil || !isJob { // metadata goes along, as on a real API server
				return err
			}
			job.ResourceVersion = o.GetResourceVersion()
			return c.Status().Update(ctx, job)
		}})
	w.Reconciler = &Reconciler{Engine: engine, Recorder: events.NewFakeRecorder(1000), Clock: w.clock}
	if err := w.index(t.Context(), indexes{b}); err != nil {
		t.Fatal(err)
	}
	w.Client = b.Build()
	w.Reconciler.Client, w.Live = w.Client, w.Client
	return w
}

var engine = injectors.New(injectors.Builtin(), gang.Config{})

// admit is what admission makes of an object.
func admit(t *testing.T, o client.Object) client.Object {
	t.Helper()
	w, err := gang.WorkloadOf(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Admit(w); err != nil {
		t.Fatal(err)
	}
	return o
}

func meta(name, framework, role, roles string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(began),
		Labels: map[string]string{gang.LabelFramework: framework, gang.LabelRole: role}}
	if roles != "" {
		out.Annotations = map[string]string{gang.AnnotationRoles: roles, gang.AnnotationSlots: "1"}
	}
	return out
}

var template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}}}}

func one() batchv1.JobSpec {
	return batchv1.JobSpec{Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), Template: *template.DeepCopy()}
}

func launcher(t *testing.T) *batchv1.Job {
	t.Helper()
	return admit(t, &batchv1.Job{ObjectMeta: meta("train-launcher", "mpi", "launcher", "launcher=1,worker=3"),
		Spec: one()}).(*batchv1.Job)
}

func worker(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	return admit(t, &appsv1.StatefulSet{ObjectMeta: meta("train-worker", "mpi", "worker", "launcher=1,worker=3"),
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *template.DeepCopy()}}).(*appsv1.StatefulSet)
}

var train = Request{Namespace: "team", Gang: "train"}

// look reconciles, and returns when the next look is due.
func (w *world) look(t *testing.T, req Request) time.Duration {
	t.Helper()
	result, err := w.Reconcile(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// TestKeyPairOfAnother: a Secret that is in the way is met ever more rarely, however often the gang moves, and the
// gang's own is made once.
func TestKeyPairOfAnother(t *testing.T) {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-rollcall-ssh"}}
	w := newWorld(t, launcher(t), worker(t), theirs)
	for range 3600 {
		if after := w.look(t, train); after <= 0 || after > 5*time.Minute {
			t.Fatalf("after %s, the next look is due in %s", w.clock.Since(began), after)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	if w.secrets < 10 || w.secrets > 40 {
		t.Errorf("it was met %d times in an hour", w.secrets)
	}
	if err := w.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	before := w.secrets
	for range 10 {
		w.look(t, train)
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
	}
	if w.secrets != before+1 {
		t.Errorf("the gang's own was made %d times", w.secrets-before)
	}
}

// TestKeyPairNotNeeded: no Secret is made where none is wanted.
func TestKeyPairNotNeeded(t *testing.T) {
	held := launcher(t)
	held.Spec.Suspend = ptr.To(true)
	running := worker(t)
	running.Status.ReadyReplicas = 3
	ready := launcher(t)
	ready.Status.Ready = ptr.To[int32](1)
	torch := admit(t, &batchv1.Job{ObjectMeta: meta("train-master", "pytorch", "master", "master=1,worker=3"), Spec: one()})
	for name, objects := range map[string][]client.Object{
		"held back, its pods come later":      {held, worker(t)},
		"running, its pods have mounted one":  {ready, running},
		"of a framework that does without it": {torch},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, objects...)
			w.look(t, train)
			if w.secrets != 0 {
				t.Error("a Secret was made")
			}
		})
	}
}

// TestForgotten: nothing is kept of gangs that are gone.
func TestForgotten(t *testing.T) {
	w := newWorld(t, launcher(t), worker(t))
	w.look(t, train)
	for _, o := range []client.Object{launcher(t), worker(t)} {
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.look(t, train)
	if len(w.memory.gangs) > 0 {
		t.Errorf("kept: %v", w.memory.gangs)
	}
}

func TestIdleHosts(t *testing.T) {
	word := func(state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train-launcher-0", Labels: map[string]string{
				gang.LabelGang: "train", gang.LabelRole: "launcher", batchv1.ControllerUidLabel: "train-launcher"}},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded, InitContainerStatuses: []corev1.ContainerStatus{{Name: ssh.Watch, State: state}}},
		}
	}
	ended := func(message string) *corev1.Pod {
		return word(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}})
	}
	failed := ended("reached=0")
	failed.Status.Phase = corev1.PodFailed
	other := ended("reached=0")
	other.Labels[batchv1.ControllerUidLabel] = "of an earlier gang"
	plain := ended("")
	plain.Status.InitContainerStatuses = nil
	for name, c := range map[string]struct {
		reason string
		pod    *corev1.Pod
		want   gang.Reason
		looks  int
	}{
		"none":             {"", ended("reached=0\n"), gang.ReasonRanksOnOneHost, 1},
		"one of three":     {"", ended("reached=1\n"), gang.ReasonRanksOnOneHost, 1},
		"two of three":     {"a launcher may let others reach the rest", ended("reached=2\n"), gang.ReasonGangSucceeded, 1},
		"all":              {"", ended("reached=3\n"), gang.ReasonGangSucceeded, 1},
		"no word":          {"the container was killed, say", ended("Error"), gang.ReasonGangSucceeded, 1},
		"not yet":          {"the end is told all the same, a little later", word(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), gang.ReasonGangSucceeded, 4},
		"not watched":      {"", plain, gang.ReasonGangSucceeded, 1},
		"a failed attempt": {"what failed may well have reached none", failed, gang.ReasonGangSucceeded, 1},
		"of another":       {"", other, gang.ReasonGangSucceeded, 1},
		"gone":             {"", nil, gang.ReasonGangSucceeded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			done := launcher(t)
			done.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			objects := []client.Object{done, worker(t)}
			if c.pod != nil {
				objects = append(objects, c.pod)
			}
			w := newWorld(t, objects...)
			looks := 1
			for ; w.look(t, train) > 0; looks++ {
				w.clock.SetTime(w.clock.Now().Add(betweenLooks))
			}
			if looks != c.looks {
				t.Errorf("%s: %d looks, want %d", c.reason, looks, c.looks)
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
				if s := gang.StatusOf(member); s.Phase != gang.Succeeded || s.Reason != c.want {
					t.Errorf("%s: %s is told %+v, want %s", c.reason, name, s, c.want)
				}
				version := o.GetResourceVersion()
				w.look(t, train)
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetResourceVersion() != version {
					t.Errorf("%s: one more look wrote to %s, %v", c.reason, name, err)
				}
			}
		})
	}
}

func TestRequests(t *testing.T) {
	run := func(name string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: meta(name, "pytorch", "worker", ""), Spec: one()}
		j.Labels[gang.LabelGang] = "nightly"
		return admit(t, j).(*batchv1.Job)
	}
	forgotten := admit(t, &appsv1.StatefulSet{ObjectMeta: meta("train-worker", "pytorch", "worker", ""),
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *template.DeepCopy()}})
	first, second := run("nightly-1"), run("nightly-2")
	alone := func(name string, kind gang.Kind) Request { return Request{Namespace: "team", Kind: kind, Name: name} }
	for name, c := range map[string]struct {
		reason string
		there  []client.Object
		moved  client.Object
		want   []Request
	}{
		"member":         {"", []client.Object{launcher(t), worker(t)}, worker(t), []Request{train}},
		"deleted member": {"it is not in the cache any more", []client.Object{worker(t)}, launcher(t), []Request{train}},
		"run of a CronJob": {"each is a gang of its own, and does not wake the others",
			[]client.Object{first, second}, first, []Request{alone("nightly-1", gang.Job)}},
		"forgotten": {"its own gang, and the one that misses it", []client.Object{launcher(t), forgotten}, forgotten,
			[]Request{alone("train-worker", gang.StatefulSet), train}},
		"named alike": {"nobody misses it", []client.Object{forgotten}, forgotten, []Request{alone("train-worker", gang.StatefulSet)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.there...)
			if diff := cmp.Diff(c.want, w.requests(t.Context(), c.moved)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "nightly", Labels: map[string]string{gang.LabelGang: "nightly"}}}
	got := newWorld(t, first, second).requestsOfService(t.Context(), service)
	if !slices.Contains(got, alone("nightly-1", gang.Job)) || !slices.Contains(got, alone("nightly-2", gang.Job)) || len(got) != 2 {
		t.Errorf("a lost Service wakes %v", got)
	}
}

func TestPace(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Minute: 15 * time.Second, 24 * time.Hour: 5 * time.Minute, -time.Hour: 2 * time.Second,
	} {
		if got := pace(age); got != want {
			t.Errorf("at the age of %s: %s, want %s", age, got, want)
		}
	}
}

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/adversarial"
	"rollcall.training/internal/testing/golden"
)

// trimCopy returns a workload as the cache contains it.
func trimCopy(t testing.TB, w gang.Workload) gang.Workload {
	t.Helper()
	trimmed, err := TrimWorkload(w.DeepCopy().Object())
	if err != nil {
		t.Fatal(err)
	}
	out, err := gang.WorkloadOf(trimmed.(client.Object))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTrimWorkload checks with all golden cases that the reconciler reads the same gang, status and
// record from a workload of the cache as from the whole workload.
func TestTrimWorkload(t *testing.T) {
	admitted := 0
	for _, c := range golden.Cases(t) {
		w := golden.ParseWorkload(t, c.Manifest)
		w.Meta().Namespace = "team"
		if _, err := testEngine.Admit(w); err != nil || w.Meta().Annotations[gang.AnnotationInjected] == "" {
			continue
		}
		admitted++
		before := w.DeepCopy()
		trimmed := trimCopy(t, w)
		want, wantErr := testEngine.Describe(w)
		got, gotErr := testEngine.Describe(trimmed)
		want.Warnings, got.Warnings = nil, nil // the reconciler reads no warnings about keys
		if diff := cmp.Diff(want, got); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: errors %v and %v, gang (-whole +trimmed):\n%s", c.Name, wantErr, gotErr, diff)
		}
		if diff := cmp.Diff(lifecycle.Observe(w), lifecycle.Observe(trimmed)); diff != "" {
			t.Errorf("%s: observation (-whole +trimmed):\n%s", c.Name, diff)
		}
		if diff := cmp.Diff(before.Object(), w.Object()); diff != "" {
			t.Errorf("%s: the argument changed (-before +after):\n%s", c.Name, diff)
		}
	}
	if admitted == 0 {
		t.Fatal("no golden case was admitted")
	}
}

// TestTransformTwice checks that a second call of a transform function changes nothing. client-go calls it twice for
// the objects of a first list.
func TestTransformTwice(t *testing.T) {
	large := map[string]string{}
	for i := range 9000 {
		large[fmt.Sprintf("l%d", i)] = strings.Repeat("x", 60)
	}
	job := newLargeJob(t, 0)
	job.Annotations[gang.AnnotationInjected] = "{}"
	tooLarge := job.DeepCopy()
	tooLarge.Spec.Template.Labels = large
	for name, c := range map[string]struct {
		object    any
		transform func(any) (any, error)
	}{
		"a Job":                          {job, TrimWorkload},
		"a Job that is too large":        {tooLarge, TrimWorkload},
		"a Job with a policy":            {job, DigestWorkload},
		"a large Job with a policy":      {tooLarge, DigestWorkload},
		"a StatefulSet that is excluded": {&appsv1.StatefulSet{}, TrimWorkload},
		"a Service that is too large":    {&corev1.Service{Spec: corev1.ServiceSpec{Selector: large}}, TrimService},
		"a pod":                          {newLargePod(0), CompactPod},
	} {
		once, err := c.transform(c.object)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := c.transform(once)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(once, twice) {
			t.Errorf("%s: the second call returned another object", name)
		}
	}
}

// newLargeJob returns an admitted Job with everything that teams put into a pod template.
func newLargeJob(t testing.TB, index int) *batchv1.Job {
	t.Helper()
	c := corev1.Container{
		Name: "trainer", Image: "registry.example.com/team/train:1",
		Args: []string{strings.Repeat("x", 100_000)},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{strings.Repeat("x", 1000)}},
		}},
	}
	for i := range 50 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("v", 30)})
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: fmt.Sprintf("v%d", i), MountPath: fmt.Sprintf("/m%d", i)})
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("train-%d", index),
			Labels:      map[string]string{gang.LabelFramework: "pytorch"},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 110_000)},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:a":"` + strings.Repeat("x", 5000) + `"}`),
			}},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
		},
	}
	for i := range 50 {
		job.Spec.Template.Spec.Volumes = append(job.Spec.Template.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprintf("v%d", i),
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("c%d", i)},
			}},
		})
	}
	return job
}

// TestWorkloadMemory measures the memory of Jobs in the cache. A Job of 3 MiB must not need more than a
// little more than gang.MaxCachedBytes.
func TestWorkloadMemory(t *testing.T) {
	measure := func(t *testing.T, newJob func(int) *batchv1.Job) (whole, trimmed uint64) {
		t.Helper()
		const count = 10
		for _, transform := range []func(any) (any, error){func(o any) (any, error) { return o, nil }, TrimWorkload} {
			var before, after runtime.MemStats
			collectGarbage()
			runtime.ReadMemStats(&before)
			objects := make([]any, count)
			for i := range objects {
				text, err := json.Marshal(newJob(i))
				if err != nil {
					t.Fatal(err)
				}
				job := &batchv1.Job{} // decoded, so that the Jobs share no memory
				if err := json.Unmarshal(text, job); err != nil {
					t.Fatal(err)
				}
				if objects[i], err = transform(job); err != nil {
					t.Fatal(err)
				}
			}
			collectGarbage()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(objects)
			whole, trimmed = trimmed, (after.HeapAlloc-before.HeapAlloc)/count
		}
		return whole, trimmed
	}
	for name, c := range map[string]struct {
		newJob func(int) *batchv1.Job
		most   uint64
	}{
		"Job with a script of 100 kB and 50 volumes": {
			newJob: func(i int) *batchv1.Job { return newLargeJob(t, i) }, most: 120_000,
		},
		"Job with arguments of 1 MB": { // the texts are truncated
			newJob: func(i int) *batchv1.Job {
				job := newLargeJob(t, i)
				job.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("x", 1_000_000)}
				return job
			},
			most: 20_000,
		},
		"Job with 60,000 variables": { // the Job is not followed
			newJob: func(i int) *batchv1.Job {
				job := newLargeJob(t, i)
				job.Spec.Template.Spec.Containers[0].Env = make([]corev1.EnvVar, 60_000)
				return job
			},
			most: 10_000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole, trimmed := measure(t, c.newJob)
			t.Logf("%d kB without and %d kB with the transform", whole/1000, trimmed/1000)
			if trimmed > c.most {
				t.Errorf("a Job needs %d bytes, want at most %d", trimmed, c.most)
			}
		})
	}
}

// collectGarbage frees all garbage. Pools are emptied by the second collection.
func collectGarbage() {
	runtime.GC()
	runtime.GC()
}

// TestTooLargeService checks that a Service that is too large gets one Event in a managed namespace, and causes no
// pass.
func TestTooLargeService(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "large", Labels: map[string]string{gang.LabelGang: "train"}},
	}
	trim := func(s *corev1.Service) *corev1.Service {
		out, err := TrimService(s)
		if err != nil {
			t.Fatal(err)
		}
		return out.(*corev1.Service)
	}
	small := trim(service)
	service.Spec.Ports = make([]corev1.ServicePort, 10_000)
	large := trim(service)
	for name, c := range map[string]struct {
		before, after *corev1.Service
		namespaces    labels.Selector
		events        int
	}{
		"created small":    {after: small},
		"created large":    {after: large, events: 1},
		"becomes large":    {before: small, after: large, events: 1},
		"was large before": {before: large, after: large},
		"not managed":      {after: large, namespaces: labels.Nothing()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCluster(t)
			w.Namespaces = c.namespaces
			if c.before == nil {
				w.serviceEventHandler().Create(t.Context(), event.CreateEvent{Object: c.after}, nil)
			} else {
				w.serviceEventHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}, nil)
			}
			recorded := w.Recorder.(*events.FakeRecorder).Events
			if len(recorded) != c.events {
				t.Fatalf("%d Events, want %d", len(recorded), c.events)
			}
			if c.events > 0 && !strings.Contains(<-recorded, string(gang.ReasonTooLarge)) {
				t.Error("the Event has another reason")
			}
		})
	}
}

// TestTooLargeWorkload checks that a workload that is too large gets an Event and no child objects.
func TestTooLargeWorkload(t *testing.T) {
	job := admitObject(t, newLargeJob(t, 0)).(*batchv1.Job)
	job.Spec.Template.Spec.Containers[0].Env = make([]corev1.EnvVar, 60_000)
	w := newTestCluster(t, trimCopy(t, gang.Workload{Job: job}).Job)
	w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: job.Name})
	select {
	case event := <-w.Recorder.(*events.FakeRecorder).Events:
		if !strings.Contains(event, string(gang.ReasonTooLarge)) {
			t.Errorf("the Event is %q", event)
		}
	default:
		t.Error("there is no Event")
	}
	var services corev1.ServiceList
	if err := w.List(t.Context(), &services); err != nil || len(services.Items) > 0 {
		t.Errorf("the Services are %v, error %v", services.Items, err)
	}
	live := &batchv1.Job{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(job), live); err != nil {
		t.Fatal(err)
	}
	if status := live.Annotations[gang.AnnotationStatus]; status != "" {
		t.Errorf("the status is %s", status)
	}
}

// TestUserServiceReads checks that a Service of a user is read once in each interval, and that it is found
// even if a quota permits no other Service.
func TestUserServiceReads(t *testing.T) {
	job := admitObject(t, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec(),
	})
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{gang.LabelGang: "train"}},
	}
	w := newTestCluster(t, job)
	reader := &countingReader{Reader: newTestCluster(t, service).Client}
	w.APIReader = reader
	w.Reconciler.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(corev1.Resource("services"), "train", errors.New("exceeded quota"))
		},
	})
	request := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	for range 10 {
		w.reconcileOnce(t, request)
	}
	if reader.reads != 1 {
		t.Errorf("%d reads within the interval, want 1", reader.reads)
	}
	w.clock.SetTime(w.clock.Now().Add(obstacleRetryInterval))
	w.reconcileOnce(t, request)
	if reader.reads != 2 {
		t.Errorf("%d reads after the interval, want 2", reader.reads)
	}
}

// countingReader counts the reads of single objects.
type countingReader struct {
	client.Reader
	reads int
}

func (c *countingReader) Get(
	ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption,
) error {
	c.reads++
	return c.Reader.Get(ctx, key, o, options...)
}

// TestDescribeCost checks that no workload in the cache is expensive to trim and to parse, even if its user
// changed the annotations after its admission. Objects beyond 1.5 MiB do not fit into etcd.
func TestDescribeCost(t *testing.T) {
	const maxStoredBytes, maxAllocated = 3 << 19, 64 << 20
	for _, input := range adversarial.Inputs() {
		w, _ := gang.NewWorkload(input.Kind)
		if len(input.Object) > maxStoredBytes || json.Unmarshal([]byte(input.Object), w.Object()) != nil {
			continue
		}
		if w.Meta().Annotations == nil {
			w.Meta().Annotations = map[string]string{}
		}
		w.Meta().Annotations[gang.AnnotationInjected] = "{}"
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := testEngine.Describe(trimCopy(t, w))
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %.1f MiB, error %v", input.Name, float64(allocated)/(1<<20), err != nil)
		if allocated > maxAllocated {
			t.Errorf("%s: %d bytes were allocated, want at most %d", input.Name, allocated, maxAllocated)
		}
	}
}

package controller

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// reportMemory reports the live heap that fill adds, divided by the number of objects. The result of fill
// keeps the objects.
func reportMemory(b *testing.B, objects int, unit string, fill func() any) {
	b.Helper()
	for b.Loop() {
		var before, after runtime.MemStats
		collectGarbage()
		runtime.ReadMemStats(&before)
		kept := fill()
		collectGarbage()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(objects), unit)
		runtime.KeepAlive(kept)
	}
}

// newIndexer returns an indexer with the keys of controller-runtime.
func newIndexer(indexes map[string]client.IndexerFunc) toolscache.Indexer {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	for name, extract := range indexes {
		indexers[name] = func(o any) ([]string, error) {
			var keys []string
			for _, key := range extract(o.(client.Object)) {
				keys = append(keys, o.(client.Object).GetNamespace()+"/"+key, "__all_namespaces/"+key)
			}
			return keys, nil
		}
	}
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexers)
}

// addTransformed adds an object to an indexer as an informer does.
func addTransformed(b *testing.B, indexer toolscache.Indexer, o any, transform toolscache.TransformFunc) {
	b.Helper()
	transformed, err := transform(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := indexer.Add(transformed); err != nil {
		b.Fatal(err)
	}
}

func keepObject(o any) (any, error) { return o, nil }

// BenchmarkPodMemory reports the memory of a pod in the cache, including its entries in the indexes. Each pod
// is decoded from its own text, as pods of a watch are.
func BenchmarkPodMemory(b *testing.B) {
	measure := func(name string, transform toolscache.TransformFunc, change func(*corev1.Pod)) {
		b.Run(name, func(b *testing.B) {
			const pods, ranks = 20_000, 100
			reportMemory(b, pods, "B/pod", func() any {
				indexer := newIndexer(map[string]client.IndexerFunc{indexPodOwner: podOwnerKeys})
				for i := range pods {
					pod := decodePod(b, i, ranks)
					change(pod)
					addTransformed(b, indexer, pod, transform)
				}
				return indexer
			})
		})
	}
	measure("complete", keepObject, func(*corev1.Pod) {})
	measure("ready", CompactPod, func(*corev1.Pod) {})
	measure("pending", CompactPod, func(pod *corev1.Pod) {
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		}}}
	})
}

// decodePod returns a ready pod in a gang of a size.
func decodePod(b *testing.B, i, ranks int) *corev1.Pod {
	b.Helper()
	pod := newLargePod(i)
	pod.UID = types.UID(fmt.Sprintf("12345678-1234-1234-1234-%012d", i))
	pod.OwnerReferences[0].UID = types.UID(fmt.Sprintf("87654321-1234-1234-1234-%012d", i/ranks))
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = fmt.Sprint(i % ranks)
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	pod.CreationTimestamp = metav1.NewTime(testStartTime.Add(time.Duration(i) * time.Second))
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(pod.CreationTimestamp.Add(time.Minute))
	text, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	decoded := &corev1.Pod{}
	if err := decoded.Unmarshal(text); err != nil {
		b.Fatal(err)
	}
	return decoded
}

// BenchmarkGangMemory reports the memory of a gang of one Job without its pods: the Job and the Service in
// the cache, and what the reconciler keeps between two passes.
func BenchmarkGangMemory(b *testing.B) {
	measure := func(name string, transformJob, transformService toolscache.TransformFunc) {
		b.Run(name, func(b *testing.B) {
			const gangs = 2_000
			job, service := newRunningGang(b)
			reportMemory(b, gangs, "B/gang", func() any {
				r := &Reconciler{Engine: testEngine}
				jobs, services := newIndexer(r.workloadIndexes()), newIndexer(nil)
				for i := range gangs {
					addTransformed(b, jobs, decodeJob(b, job, i), transformJob)
					addTransformed(b, services, decodeService(b, service, i), transformService)
					req := Request{Namespace: "team", Kind: gang.Job, Name: fmt.Sprintf("train-%d", i)}
					put(&r.sessions.forRequest(req).writtenVersions, types.UID(fmt.Sprint(i)), fmt.Sprint(i))
					r.sessions.recordPass(req, 2, testStartTime)
				}
				return []any{r, jobs, services}
			})
		})
	}
	measure("complete", keepObject, keepObject)
	measure("trimmed", TrimWorkload, TrimService)
	measure("with a policy", DigestWorkload, TrimService)
}

// newRunningGang returns the Job and the Service of a gang that runs, as the API server returns them.
func newRunningGang(b *testing.B) (*batchv1.Job, *corev1.Service) {
	b.Helper()
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		"nvidia.com/gpu":      resource.MustParse("8"),
	}
	container := corev1.Container{
		Name: "trainer", Image: "registry.example.com/team/train:1",
		Command:      []string{"torchrun", "train.py", "--config", "config.yaml"},
		Resources:    corev1.ResourceRequirements{Requests: resources, Limits: resources},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}
	for i := range 10 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "some value"})
	}
	job := admitObject(b, &batchv1.Job{
		ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), TTLSecondsAfterFinished: ptr.To[int32](3600),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				}}},
			}},
		},
		Status: batchv1.JobStatus{Active: 2, Ready: ptr.To[int32](2), StartTime: ptr.To(metav1.NewTime(testStartTime))},
	}).(*batchv1.Job)
	w := newTestCluster(b, job)
	if _, err := w.Reconcile(b.Context(), Request{Namespace: "team", Kind: gang.Job, Name: "train"}); err != nil {
		b.Fatal(err)
	}
	service := &corev1.Service{}
	for _, o := range []client.Object{job, service} {
		if err := w.Get(b.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, o); err != nil {
			b.Fatal(err)
		}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":"` + strings.Repeat("x", 3000) + `"}`),
		}})
	}
	job.Annotations[corev1.LastAppliedConfigAnnotation] = strings.Repeat("x", 1500)
	return job, service
}

// decodeJob returns a copy of a Job with another name that shares no memory with the other copies.
func decodeJob(b *testing.B, job *batchv1.Job, i int) *batchv1.Job {
	b.Helper()
	job = job.DeepCopy()
	job.Name, job.UID = fmt.Sprintf("train-%d", i), types.UID(fmt.Sprintf("12345678-1234-1234-1234-%012d", i))
	text, err := job.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	decoded := &batchv1.Job{}
	if err := decoded.Unmarshal(text); err != nil {
		b.Fatal(err)
	}
	return decoded
}

// decodeService returns a copy of a Service with another name that shares no memory with the other copies.
func decodeService(b *testing.B, service *corev1.Service, i int) *corev1.Service {
	b.Helper()
	service = service.DeepCopy()
	service.Name, service.UID = fmt.Sprintf("train-%d", i), types.UID(fmt.Sprintf("12345678-1234-1234-1234-%012d", i))
	text, err := service.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	decoded := &corev1.Service{}
	if err := decoded.Unmarshal(text); err != nil {
		b.Fatal(err)
	}
	return decoded
}

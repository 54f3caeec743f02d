package controller

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
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

// storedObject is an object as the API server encodes it.
type storedObject interface {
	client.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
	Size() int
}

// fillFunc adds the element i of one kind to an object.
type fillFunc[T storedObject] func(o T, i int)

// hostileSizes are encoded sizes. Objects of the largest fit into etcd. Of the others, more is kept.
var hostileSizes = []int{24 << 10, 128 << 10, 1400 << 10}

// fillObject adds elements until the encoded object has a size. It returns the encoded object.
func fillObject[T storedObject](t *testing.T, o T, maxBytes int, fill fillFunc[T]) []byte {
	t.Helper()
	for i := 0; o.Size() < maxBytes && i < 100_000; {
		for range 16 + i/8 {
			fill(o, i)
			i++
		}
	}
	text, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// requireBoundedMemory measures the heap that an object of the cache needs.
func requireBoundedMemory(t *testing.T, most uint64, newObject func() any, transform toolscache.TransformFunc) {
	t.Helper()
	const count = 3
	var before, after runtime.MemStats
	collectGarbage()
	runtime.ReadMemStats(&before)
	kept := make([]any, count)
	for i := range kept {
		var err error
		if kept[i], err = transform(newObject()); err != nil {
			t.Fatal(err)
		}
	}
	collectGarbage()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	bytes := (after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)) / count
	t.Logf("%d KiB", bytes>>10)
	if bytes > most {
		t.Errorf("the cache keeps %d KiB, want at most %d KiB", bytes>>10, most>>10)
	}
}

var hostileValue = strings.Repeat("v", 3000)

// hostileMetadata are the parts of the metadata that have no bound or a large one.
func hostileMetadata[T storedObject]() map[string]fillFunc[T] {
	return map[string]fillFunc[T]{
		"labels": func(o T, i int) { setKey(o.GetLabels(), fmt.Sprintf("l%d", i), strings.Repeat("x", 63)) },
		"labels with the prefix": func(o T, i int) {
			setKey(o.GetLabels(), fmt.Sprintf("%sl%d", gang.Prefix, i), "")
		},
		"annotations": func(o T, i int) { setKey(o.GetAnnotations(), fmt.Sprintf("a%d", i), hostileValue) },
		"annotations with the prefix": func(o T, i int) {
			setKey(o.GetAnnotations(), fmt.Sprintf("%sa%d", gang.Prefix, i), "")
		},
		"long annotation with the prefix": func(o T, _ int) {
			setKey(o.GetAnnotations(), gang.AnnotationStatus, o.GetAnnotations()[gang.AnnotationStatus]+hostileValue)
		},
		"finalizers": func(o T, i int) { o.SetFinalizers(append(o.GetFinalizers(), fmt.Sprintf("example.com/%d", i))) },
		"owners": func(o T, i int) {
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)),
			}))
		},
		"long owner": func(o T, i int) {
			if i == 0 {
				o.SetOwnerReferences([]metav1.OwnerReference{{Controller: ptr.To(true), Name: "x"}})
			}
			o.GetOwnerReferences()[0].Name += hostileValue
		},
		"managedFields": func(o T, i int) {
			o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: fmt.Sprint(i) + hostileValue}))
		},
	}
}

func setKey(keys map[string]string, key, value string) { keys[key] = value }

// hostileTemplates are the parts of a pod template that have no bound.
func hostileTemplates() map[string]func(*corev1.PodTemplateSpec, int) {
	container := func(change func(*corev1.Container, int)) func(*corev1.PodTemplateSpec, int) {
		return func(template *corev1.PodTemplateSpec, i int) { change(&template.Spec.Containers[0], i) }
	}
	return map[string]func(*corev1.PodTemplateSpec, int){
		"template labels": func(p *corev1.PodTemplateSpec, i int) { p.Labels[fmt.Sprintf("l%d", i)] = "" },
		"volumeAttributes": func(p *corev1.PodTemplateSpec, i int) {
			if i == 0 {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					CSI: &corev1.CSIVolumeSource{Driver: "example.com", VolumeAttributes: map[string]string{}},
				}}}
			}
			p.Spec.Volumes[0].CSI.VolumeAttributes[fmt.Sprint(i)] = hostileValue
		},
		"volumes": func(p *corev1.PodTemplateSpec, i int) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i)})
		},
		"containers": func(p *corev1.PodTemplateSpec, i int) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint(i)})
		},
		"scheduling gates": func(p *corev1.PodTemplateSpec, i int) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: fmt.Sprint(i)})
		},
		"resource claims": func(p *corev1.PodTemplateSpec, i int) {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{
				Name: fmt.Sprint(i), ResourceClaimName: ptr.To("c"),
			})
		},
		"short variables": container(func(c *corev1.Container, i int) {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint(i)})
		}),
		"long variable": container(func(c *corev1.Container, i int) {
			if i == 0 {
				c.Env = []corev1.EnvVar{{Name: "DATA"}}
			}
			c.Env[0].Value += hostileValue
		}),
		"variables with sources": container(func(c *corev1.Container, i int) {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint(i), ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{Key: "k"},
			}})
		}),
		"envFrom": container(func(c *corev1.Container, i int) {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
				Prefix: fmt.Sprint(i), ConfigMapRef: &corev1.ConfigMapEnvSource{},
			})
		}),
		"arguments": container(func(c *corev1.Container, i int) { c.Args = append(c.Args, fmt.Sprint(i)) }),
		"resources": container(func(c *corev1.Container, i int) {
			if i == 0 {
				c.Resources.Limits = corev1.ResourceList{}
			}
			c.Resources.Limits[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
		}),
		"claims of a container": container(func(c *corev1.Container, i int) {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: fmt.Sprint(i)})
		}),
	}
}

func newHostileMetadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "team", Name: "train", UID: "1",
		Labels:      map[string]string{gang.LabelFramework: "pytorch", gang.LabelGang: "train"},
		Annotations: map[string]string{gang.AnnotationInjected: "{}"},
	}
}

func newHostileTemplate() corev1.PodTemplateSpec {
	out := *podTemplate.DeepCopy()
	out.Labels = map[string]string{gang.LabelGang: "train"}
	return out
}

// maxKept is the heap that an object of the cache may need: the measured memory is approximate.
const maxKept = gang.MaxCachedBytes * 5 / 4

// testHostileObjects measures the cache of objects of 1.4 MiB, with and without a policy.
func testHostileObjects[T storedObject](
	t *testing.T, most uint64, newObject, newEmpty func() T, cases map[string]fillFunc[T],
	transforms map[string]toolscache.TransformFunc,
) {
	t.Helper()
	for name, fill := range cases {
		for _, size := range hostileSizes {
			text := fillObject(t, newObject(), size, fill)
			decode := func() any {
				o := newEmpty()
				if err := o.Unmarshal(text); err != nil {
					t.Fatal(err)
				}
				return o
			}
			for transformName, transform := range transforms {
				t.Run(fmt.Sprintf("%s, %d KiB, %s", name, size>>10, transformName), func(t *testing.T) {
					requireBoundedMemory(t, most, decode, transform)
				})
			}
		}
	}
}

var workloadTransforms = map[string]toolscache.TransformFunc{"no policy": TrimWorkload, "policy": DigestWorkload}

// TestAttackJobMemory checks that no Job needs more memory in the cache than the bound.
func TestAttackJobMemory(t *testing.T) {
	cases := hostileMetadata[*batchv1.Job]()
	for name, fill := range hostileTemplates() {
		cases[name] = func(job *batchv1.Job, i int) { fill(&job.Spec.Template, i) }
	}
	cases["success policy"] = func(job *batchv1.Job, i int) {
		if i == 0 {
			job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		}
		job.Spec.SuccessPolicy.Rules = append(job.Spec.SuccessPolicy.Rules,
			batchv1.SuccessPolicyRule{SucceededIndexes: ptr.To(hostileValue)})
	}
	cases["conditions"] = func(job *batchv1.Job, i int) {
		conditions := &job.Status.Conditions
		*conditions = append(*conditions, batchv1.JobCondition{Type: batchv1.JobConditionType(fmt.Sprint(i))})
	}
	cases["completed indexes"] = func(job *batchv1.Job, _ int) { job.Status.CompletedIndexes += hostileValue }
	newJob := func() *batchv1.Job {
		return &batchv1.Job{ObjectMeta: newHostileMetadata(), Spec: batchv1.JobSpec{Template: newHostileTemplate()}}
	}
	newEmpty := func() *batchv1.Job { return &batchv1.Job{} }
	testHostileObjects(t, maxKept, newJob, newEmpty, cases, workloadTransforms)
	// Nobody admits these Jobs, so they need not be read.
	newOptedOut := func() *batchv1.Job {
		job := newJob()
		job.Labels[gang.LabelInject] = "false"
		return job
	}
	templates := map[string]fillFunc[*batchv1.Job]{}
	for name := range hostileTemplates() {
		templates["opted out, "+name] = cases[name]
	}
	testHostileObjects(t, 8<<10, newOptedOut, newEmpty, templates, workloadTransforms)
}

// TestAttackStatefulSetMemory checks that no StatefulSet needs more memory in the cache than the bound.
func TestAttackStatefulSetMemory(t *testing.T) {
	cases := hostileMetadata[*appsv1.StatefulSet]()
	for name, fill := range hostileTemplates() {
		cases[name] = func(set *appsv1.StatefulSet, i int) { fill(&set.Spec.Template, i) }
	}
	cases["volume claim templates"] = func(set *appsv1.StatefulSet, _ int) {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{})
	}
	cases["name of the Service"] = func(set *appsv1.StatefulSet, _ int) { set.Spec.ServiceName += hostileValue }
	testHostileObjects(t, maxKept, func() *appsv1.StatefulSet {
		spec := appsv1.StatefulSetSpec{Template: newHostileTemplate()}
		return &appsv1.StatefulSet{ObjectMeta: newHostileMetadata(), Spec: spec}
	}, func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} }, cases, workloadTransforms)
}

// TestAttackServiceMemory checks that no Service needs more memory in the cache than the bound, also if a user
// created it and it is remembered for a short time.
func TestAttackServiceMemory(t *testing.T) {
	cases := hostileMetadata[*corev1.Service]()
	cases["selector"] = func(s *corev1.Service, i int) { s.Spec.Selector[fmt.Sprintf("l%d", i)] = "" }
	cases["ports"] = func(s *corev1.Service, i int) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(i), Port: int32(i)})
	}
	cases["source ranges"] = func(s *corev1.Service, i int) {
		s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprint(i)+hostileValue)
	}
	remember := func(o any) (any, error) {
		service := o.(*corev1.Service)
		services := &sessions{}
		services.rememberService(service, testStartTime)
		if _, isRemembered := services.services[client.ObjectKeyFromObject(service)]; !isRemembered {
			t.Error("the Service is not remembered")
		}
		return services, nil
	}
	testHostileObjects(t, maxServiceBytes*5/4, func() *corev1.Service {
		return &corev1.Service{ObjectMeta: newHostileMetadata(), Spec: corev1.ServiceSpec{Selector: map[string]string{}}}
	}, func() *corev1.Service { return &corev1.Service{} }, cases,
		map[string]toolscache.TransformFunc{"cached": TrimService, "remembered": remember})
}

// TestAttackPodMemory checks that no pod needs more memory in the cache than the bound. A pod that a user can
// create without a kubelet needs less than 16 KiB.
func TestAttackPodMemory(t *testing.T) {
	byUser := hostileMetadata[*corev1.Pod]()
	for name, fill := range hostileTemplates() {
		byUser[name] = func(pod *corev1.Pod, i int) {
			template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
			fill(&template, i)
			pod.Spec = template.Spec
		}
	}
	newPod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: newHostileMetadata(), Spec: newHostileTemplate().Spec}
	}
	newEmpty := func() *corev1.Pod { return &corev1.Pod{} }
	transforms := map[string]toolscache.TransformFunc{"compact": CompactPod}
	testHostileObjects(t, 16<<10, newPod, newEmpty, byUser, transforms)
	byKubelet := map[string]fillFunc[*corev1.Pod]{
		"container statuses": func(pod *corev1.Pod, i int) {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint(i)})
		},
		"message": func(pod *corev1.Pod, _ int) { pod.Status.Message += hostileValue },
		"message of a condition": func(pod *corev1.Pod, i int) {
			if i == 0 {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget}}
			}
			pod.Status.Conditions[0].Message += hostileValue
		},
	}
	testHostileObjects(t, maxKept, newPod, newEmpty, byKubelet, transforms)
}

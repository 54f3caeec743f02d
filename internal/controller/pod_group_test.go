package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"rollcall.training/gang"
	"rollcall.training/internal/scheduling"
)

// podGroupWrites counts the writes of PodGroups.
type podGroupWrites struct{ creates, patches int }

// nativePodGroup is the only kind of PodGroups that the test cluster serves.
var nativePodGroup = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: scheduling.Kind}

// servingClient is a client with another mapper.
type servingClient struct {
	client.WithWatch
	mapper meta.RESTMapper
}

func (c servingClient) RESTMapper() meta.RESTMapper { return c.mapper }

// newPodGroupCluster returns a test cluster that counts the writes of PodGroups.
func newPodGroupCluster(t *testing.T, objects ...client.Object) (*testCluster, *podGroupWrites) {
	t.Helper()
	w, writes := newTestCluster(t, objects...), &podGroupWrites{}
	isPodGroup := func(o client.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == scheduling.Kind }
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(nativePodGroup, meta.RESTScopeNamespace)
	served := servingClient{w.Reconciler.Client.(client.WithWatch), mapper}
	w.Reconciler.Client = interceptor.NewClient(served, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if isPodGroup(o) {
				writes.creates++
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			if isPodGroup(o) {
				writes.patches++
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	return w, writes
}

// newPlacedJob returns a member of a gang of a master and 3 workers.
func newPlacedJob(
	t *testing.T, role string, ranks int32, scheduler gang.Scheduler, policy gang.RestartPolicy,
) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: newObjectMeta("train-"+role, "pytorch", role, "master=1,worker=3")}
	job.Annotations[gang.AnnotationScheduler] = string(scheduler)
	job.Annotations[gang.AnnotationRestartPolicy] = string(policy)
	job.Spec = batchv1.JobSpec{Parallelism: &ranks, Completions: &ranks, Template: *podTemplate.DeepCopy()}
	job.Spec.Template.Spec.PriorityClassName = "training"
	return admitObject(t, job).(*batchv1.Job)
}

// getPodGroup returns a PodGroup of Kubernetes; nil if it does not exist.
func (w *testCluster) getPodGroup(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(nativePodGroup)
	err := w.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, out)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return out
}

func readMinCount(group *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(group.Object, "spec", "schedulingPolicy", "gang", "minCount")
	return n
}

// newUnboundPod returns a pod of a Job that waits for its node.
func newUnboundPod(job *batchv1.Job, index string) *corev1.Pod {
	labels := map[string]string{batchv1.JobCompletionIndexAnnotation: index}
	for key, value := range job.Spec.Template.Labels {
		labels[key] = value
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: job.Name + "-" + index, Labels: labels,
			CreationTimestamp: metav1.NewTime(testStartTime),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/3 nodes are available",
		}}},
	}
}

func TestPodGroup(t *testing.T) {
	worker := newPlacedJob(t, "worker", 3, gang.SchedulerNative, gang.RestartPolicyGang)
	w, writes := newPodGroupCluster(t, newPlacedJob(t, "master", 1, gang.SchedulerNative, gang.RestartPolicyGang))
	w.reconcileOnce(t, trainRequest)
	if group := w.getPodGroup(t, "train"); group != nil {
		t.Fatalf("a PodGroup exists before the members: %v", group)
	}
	if err := w.Create(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.reconcileOnce(t, trainRequest)
	}
	group := w.getPodGroup(t, "train")
	if group == nil || readMinCount(group) != 4 || len(group.GetOwnerReferences()) != 2 {
		t.Fatalf("the PodGroup is %v", group)
	}
	if class, _, _ := unstructured.NestedString(group.Object, "spec", "priorityClassName"); class != "training" {
		t.Errorf("the PriorityClass is %q", class)
	}
	if writes.creates != 1 || writes.patches != 0 {
		t.Errorf("%+v, want one creation", writes)
	}
	// Another process reads the PodGroup and writes nothing.
	w.sessions.forgetGang(trainRequest, false)
	w.reconcileOnce(t, trainRequest)
	if writes.creates != 1 || writes.patches != 0 {
		t.Errorf("%+v by another process, want none", writes)
	}
	// A recreated member becomes an owner, so that the PodGroup stays as long as the gang.
	if err := w.Delete(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	recreated := newPlacedJob(t, "worker", 3, gang.SchedulerNative, gang.RestartPolicyGang)
	if err := w.Create(t.Context(), recreated); err != nil {
		t.Fatal(err)
	}
	recreated.UID = "recreated" // Create set the UID of the deleted member
	if err := w.Update(t.Context(), recreated); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	isRecreated := func(o metav1.OwnerReference) bool { return o.UID == recreated.UID }
	if owners := w.getPodGroup(t, "train").GetOwnerReferences(); !slices.ContainsFunc(owners, isRecreated) {
		t.Errorf("the owners are %v", owners)
	}
}

// TestPodGroupOfCompletedRanks checks that ranks that completed cost a write only if another rank waits for its node.
func TestPodGroupOfCompletedRanks(t *testing.T) {
	master := newPlacedJob(t, "master", 1, gang.SchedulerNative, gang.RestartPolicyPod)
	worker := newPlacedJob(t, "worker", 3, gang.SchedulerNative, gang.RestartPolicyPod)
	w, writes := newPodGroupCluster(t, master, worker)
	w.reconcileOnce(t, trainRequest)
	worker, _ = w.getJob(t, "train-worker")
	worker.Status.Succeeded = 1
	if err := w.Client.Status().Update(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	if n := readMinCount(w.getPodGroup(t, "train")); n != 4 || writes.patches > 0 {
		t.Errorf("without a waiting pod, the PodGroup has %d pods after %+v", n, writes)
	}
	if err := w.Create(t.Context(), newUnboundPod(worker, "1")); err != nil {
		t.Fatal(err)
	}
	w.reconcileOnce(t, trainRequest)
	w.reconcileOnce(t, trainRequest)
	if n := readMinCount(w.getPodGroup(t, "train")); n != 3 || writes.patches != 1 {
		t.Errorf("with a waiting pod, the PodGroup has %d pods after %+v, want 3 and one patch", n, writes)
	}
}

func TestPodGroupProblems(t *testing.T) {
	foreign := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	foreign.SetGroupVersionKind(nativePodGroup)
	foreign.SetNamespace("team")
	foreign.SetName("train")
	for name, test := range map[string]struct {
		scheduler gang.Scheduler
		objects   []client.Object
		want      string
	}{
		"a PodGroup of somebody else": {
			scheduler: gang.SchedulerNative, objects: []client.Object{foreign}, want: "The PodGroup train is not of this gang",
		},
		"an API that is not served": {
			scheduler: gang.SchedulerVolcano, want: "does not serve podgroups.scheduling.volcano.sh",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, writes := newPodGroupCluster(t, append(test.objects,
				newPlacedJob(t, "master", 1, test.scheduler, gang.RestartPolicyGang),
				newPlacedJob(t, "worker", 3, test.scheduler, gang.RestartPolicyGang))...)
			for range 3 {
				w.reconcileOnce(t, trainRequest)
			}
			_, status := w.getJob(t, "train-master")
			if status.Reason != gang.ReasonPodGroupMissing || !strings.Contains(status.Message, test.want) {
				t.Errorf("the status is %+v", status)
			}
			if *writes != (podGroupWrites{}) {
				t.Errorf("%+v, want no writes", writes)
			}
			if n := w.countEvents(gang.ReasonPodGroupMissing); n != 2 {
				t.Errorf("%d Events, want one for each member", n)
			}
		})
	}
}

// TestPodGroupTopology checks that the pods wait if the API server would drop the topology of their PodGroup.
func TestPodGroupTopology(t *testing.T) {
	for name, isDropped := range map[string]bool{
		"the API server keeps the topology":                     false,
		"the API server drops the topology without its feature": true,
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""), Spec: singlePodJobSpec()}
			job.Annotations = map[string]string{
				gang.AnnotationScheduler: string(gang.SchedulerNative), gang.AnnotationTopology: "example.com/rack",
			}
			w, _ := newPodGroupCluster(t, admitObject(t, job).(*batchv1.Job))
			w.Reconciler.Client = interceptor.NewClient(w.Reconciler.Client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if group, isGroup := o.(*unstructured.Unstructured); isGroup && isDropped {
						unstructured.RemoveNestedField(group.Object, "spec", "schedulingConstraints")
					}
					return c.Create(ctx, o, opts...)
				},
			})
			for range 3 {
				w.reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "train"})
			}
			group := w.getPodGroup(t, "train")
			_, status := w.getJob(t, "train")
			if (group == nil) != isDropped || (status.Reason == gang.ReasonPodGroupMissing) != isDropped ||
				isDropped && !strings.Contains(status.Message, "feature gate TopologyAwareWorkloadScheduling") {
				t.Errorf("the PodGroup is %v, the status %+v", group, status)
			}
		})
	}
}

// TestRanksUnschedulable checks that a gang reports the words of the scheduler once, after a minute.
func TestRanksUnschedulable(t *testing.T) {
	job := admitObject(t, &batchv1.Job{ObjectMeta: newObjectMeta("train", "pytorch", "worker", ""),
		Spec: singlePodJobSpec()}).(*batchv1.Job)
	w := newTestCluster(t, job, newUnboundPod(job, "0"))
	request := Request{Namespace: "team", Kind: gang.Job, Name: "train"}
	if delay := w.reconcileOnce(t, request); delay <= 0 || delay > unboundReportDelay {
		t.Errorf("the next pass is due in %s", delay)
	}
	w.clock.SetTime(testStartTime.Add(unboundReportDelay + time.Second))
	w.reconcileOnce(t, request)
	w.reconcileOnce(t, request)
	if n := w.countEvents(gang.ReasonRanksUnschedulable); n != 1 {
		t.Errorf("%d Events, want 1", n)
	}
}

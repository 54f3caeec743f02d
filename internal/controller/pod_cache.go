package controller

import (
	"math"
	"slices"
	"strings"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// cachedLabels are the labels of pods that are read from the cache.
var cachedLabels = [...]string{
	gang.LabelGang, gang.LabelRole, gang.LabelAttempt, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel,
	appsv1.ControllerRevisionHashLabelKey,
}

// maxGates is the maximum number of scheduling gates of a pod in the cache. Only the status shows them.
const maxGates = 10

// maxOwnerLength is the maximum length of the texts of an owner. The API server does not limit them. The owner
// of a pod of a gang is a Job or a StatefulSet, whose name has at most 253 bytes.
const maxOwnerLength = 512

// jobTrackingFinalizers is the finalizer list of all pods in the cache that their Job has not counted.
var jobTrackingFinalizers = []string{batchv1.JobTrackingFinalizer}

// runningState is the state of all ready containers in the cache. Only its presence is read.
var runningState = &corev1.ContainerStateRunning{}

// trimPod returns a pod with the fields that the reconciler reads: rank, attempt, phase, why the pod is not
// ready, and how its containers exited. It does not change its argument, but the result shares its memory.
// With 100,000 pods in the cache, each unused field would cost as much memory as all gangs. Most pods are
// ready and no container has exited, so such a pod has neither container statuses nor other conditions.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: trimMetadata(pod),
		Spec: corev1.PodSpec{
			NodeName:        pod.Spec.NodeName,
			SchedulingGates: slices.Clone(pod.Spec.SchedulingGates[:min(len(pod.Spec.SchedulingGates), maxGates)]),
		},
		Status: corev1.PodStatus{
			Phase:   intern(pod.Status.Phase),
			Reason:  pod.Status.Reason,
			Message: pod.Status.Message,
		},
	}
	runs := runsWithoutExit(pod)
	if !runs {
		if len(pod.Spec.ReadinessGates) > 0 { // only the presence is read
			out.Spec.ReadinessGates = anyReadinessGate
		}
		out.Status.ContainerStatuses = trimContainerStatuses(pod.Status.ContainerStatuses)
		out.Status.InitContainerStatuses = trimContainerStatuses(pod.Status.InitContainerStatuses)
	}
	isRead := func(c corev1.PodCondition) bool {
		isOfWaitingPod := !runs && (c.Type == corev1.PodScheduled || c.Type == corev1.ContainersReady)
		return isOfWaitingPod || c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget
	}
	for _, c := range pod.Status.Conditions {
		if isRead(c) {
			out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{
				Type: intern(c.Type), Status: intern(c.Status), LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message,
			})
		}
	}
	return out
}

// runsWithoutExit reports whether a pod is ready and none of its containers has exited, except for init
// containers that succeeded, and whether all of its devices are healthy as far as is known.
func runsWithoutExit(pod *corev1.Pod) bool {
	hasExited := func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || failure.IsDeviceUnhealthy(c)
	}
	hasFailed := func(c corev1.ContainerStatus) bool {
		t := c.State.Terminated
		return t != nil && t.ExitCode != 0 || c.LastTerminationState.Terminated != nil
	}
	return pod.DeletionTimestamp == nil && lifecycle.IsPodReady(pod) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, hasExited) &&
		!slices.ContainsFunc(pod.Status.InitContainerStatuses, hasFailed)
}

// anyReadinessGate stands for the readiness gates of all pods in the cache.
var anyReadinessGate = []corev1.PodReadinessGate{{}}

// anyUnhealthyDevice stands for the unhealthy devices of all containers in the cache.
var anyUnhealthyDevice = []corev1.ResourceStatus{{
	Resources: []corev1.ResourceHealth{{Health: corev1.ResourceHealthStatusUnhealthy}},
}}

// intern returns a text that shares its memory with equal texts.
func intern[T ~string](text T) T { return unique.Make(text).Value() }

// isController is the field of all owners in the cache.
var isController = ptr.To(true)

func trimMetadata(pod *corev1.Pod) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace:                  pod.Namespace,
		Name:                       pod.Name,
		UID:                        pod.UID,
		ResourceVersion:            pod.ResourceVersion,
		CreationTimestamp:          pod.CreationTimestamp,
		DeletionTimestamp:          pod.DeletionTimestamp,
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		Labels:                     map[string]string{},
	}
	for _, key := range cachedLabels {
		if value := pod.Labels[key]; value != "" {
			out.Labels[key] = value
		}
	}
	if lifecycle.IsTracked(pod) {
		out.Finalizers = jobTrackingFinalizers
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner != nil && len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) <= maxOwnerLength {
		out.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: isController,
		}}
	}
	return out
}

// trimContainerStatuses keeps how containers exited, what they wait for, and whether they are ready.
func trimContainerStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range statuses {
		trimmed := corev1.ContainerStatus{
			Name: c.Name, RestartCount: c.RestartCount, Ready: c.Ready, Started: c.Started,
			State: corev1.ContainerState{
				Waiting:    c.State.Waiting,
				Terminated: trimTerminatedState(c.State.Terminated),
			},
			LastTerminationState: corev1.ContainerState{
				Terminated: trimTerminatedState(c.LastTerminationState.Terminated),
			},
		}
		switch {
		case c.State.Running == nil:
		case c.Ready:
			trimmed.State.Running = runningState
		default: // the start shows whether the container was ready
			trimmed.State.Running = &corev1.ContainerStateRunning{StartedAt: c.State.Running.StartedAt}
		}
		if failure.IsDeviceUnhealthy(c) {
			trimmed.AllocatedResourcesStatus = anyUnhealthyDevice
		}
		out = append(out, trimmed)
	}
	return out
}

func trimTerminatedState(t *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message, FinishedAt: t.FinishedAt,
	}
}

// compactPod is a trimmed pod in the cache, in a third of the memory of a corev1.Pod. The informer stores
// and indexes it as a client.Object. A reader of the cache gets a deep copy, which is a corev1.Pod. A reader
// that disables the deep copy gets an error. A compactPod is never changed. See
// docs/adr/0014-cost.md.
type compactPod struct {
	// ObjectMeta has neither labels nor owners. The methods of the pod return both.
	metav1.ObjectMeta

	// labels contains the values of cachedLabels; empty without a label.
	labels [len(cachedLabels)]string
	// owner is the controller of the pod; the zero value without a controller.
	owner    unique.Handle[metav1.OwnerReference]
	nodeName string
	// readyTime is when the pod became ready. It is read only without details.
	readyTime metav1.Time
	// details are nil if the status is newReadyStatus(readyTime).
	details *podDetails
}

// podDetails are fields that few pods need.
type podDetails struct {
	schedulingGates []corev1.PodSchedulingGate
	readinessGates  []corev1.PodReadinessGate
	status          corev1.PodStatus
}

var _ client.Object = (*compactPod)(nil)

// CompactPod is a transform function of the cache. It replaces a pod by a compact one with the fields that
// the reconciler reads, see [trimPod]. It does not change its argument. Objects of other types are returned
// unchanged.
func CompactPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone, or a compact pod of an earlier list
	}
	return newCompactPod(trimPod(pod)), nil
}

// newCompactPod returns the compact form of a trimmed pod. Texts that many pods have in common share their
// memory.
func newCompactPod(trimmed *corev1.Pod) *compactPod {
	out := &compactPod{ObjectMeta: trimmed.ObjectMeta, nodeName: intern(trimmed.Spec.NodeName)}
	var owner metav1.OwnerReference
	if len(trimmed.OwnerReferences) > 0 {
		owner = trimmed.OwnerReferences[0]
	}
	out.owner = unique.Make(owner)
	out.Namespace, out.Labels, out.OwnerReferences = intern(trimmed.Namespace), nil, nil
	for i, key := range cachedLabels {
		out.labels[i] = intern(trimmed.Labels[key])
	}
	for _, c := range trimmed.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.readyTime = c.LastTransitionTime
		}
	}
	if len(trimmed.Spec.SchedulingGates) > 0 || len(trimmed.Spec.ReadinessGates) > 0 ||
		!equality.Semantic.DeepEqual(trimmed.Status, newReadyStatus(out.readyTime)) {
		out.details = &podDetails{trimmed.Spec.SchedulingGates, trimmed.Spec.ReadinessGates, trimmed.Status}
		out.details.limitMemory()
	}
	return out
}

// limitMemory removes the container statuses and shortens the texts of a status that needs more than
// gang.MaxCachedBytes. The containers of the largest pod of a gang need less.
func (d *podDetails) limitMemory() {
	if gang.MeasureMemory(d, math.MaxInt) <= gang.MaxCachedBytes {
		return
	}
	shorten := func(text *string) { *text = strings.Clone(gang.ShortenText(*text)) }
	status := &d.status
	status.ContainerStatuses, status.InitContainerStatuses = nil, nil
	shorten(&status.Reason)
	shorten(&status.Message)
	for i := range status.Conditions { // of four types
		shorten(&status.Conditions[i].Reason)
		shorten(&status.Conditions[i].Message)
	}
}

// newReadyStatus returns the status of a trimmed pod that is ready.
func newReadyStatus(readyTime metav1.Time) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: readyTime,
		}},
	}
}

// GetLabels returns a new map with the labels of the pod.
func (p *compactPod) GetLabels() map[string]string {
	out := map[string]string{}
	for i, key := range cachedLabels {
		if p.labels[i] != "" {
			out[key] = p.labels[i]
		}
	}
	return out
}

// GetOwnerReferences returns a new list with the controller of the pod; nil without a controller.
func (p *compactPod) GetOwnerReferences() []metav1.OwnerReference {
	owner := p.owner.Value()
	if owner.Controller == nil {
		return nil
	}
	return []metav1.OwnerReference{owner}
}

// GetObjectKind returns the empty kind, as for other objects of the cache.
func (p *compactPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the pod as a corev1.Pod.
func (p *compactPod) DeepCopyObject() runtime.Object {
	out := &corev1.Pod{Spec: corev1.PodSpec{NodeName: p.nodeName}}
	p.DeepCopyInto(&out.ObjectMeta)
	out.Labels, out.OwnerReferences = p.GetLabels(), p.GetOwnerReferences()
	if p.details == nil {
		out.Status = newReadyStatus(p.readyTime)
		return out
	}
	p.details.status.DeepCopyInto(&out.Status)
	out.Spec.SchedulingGates = append(out.Spec.SchedulingGates, p.details.schedulingGates...)
	out.Spec.ReadinessGates = append(out.Spec.ReadinessGates, p.details.readinessGates...)
	return out
}

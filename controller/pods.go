package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"rollcall.training/gang"
)

// indexOwner finds pods by the UID of their workload.
const indexOwner = "rollcall.owner"

// Strip keeps of a pod what the reconciler reads: rank, attempt, phase, why it is not
// ready, how its containers ended. With 100,000 pods in the cache, each field that is
// not read costs as much as all gangs.
func Strip(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil // a tombstone
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
			Labels:                     map[string]string{},
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message,
			ContainerStatuses:     outcomes(pod.Status.ContainerStatuses),
			InitContainerStatuses: outcomes(pod.Status.InitContainerStatuses),
		},
	}
	for _, key := range []string{gang.LabelGang, gang.LabelRole, gang.LabelAttempt, batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel} {
		if v, ok := pod.Labels[key]; ok {
			out.Labels[key] = v
		}
	}
	if slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		out.Finalizers = tracked
	}
	if c := metav1.GetControllerOf(pod); c != nil {
		out.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID, Controller: c.Controller}}
	}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget:
			c.LastProbeTime = metav1.Time{}
			out.Status.Conditions = append(out.Status.Conditions, c)
		}
	}
	return out, nil
}

// tracked are the finalizers of all pods that their Job has yet to count.
var tracked = []string{batchv1.JobTrackingFinalizer}

// outcomes keeps how containers ended, or what they wait for.
func outcomes(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range statuses {
		kept := corev1.ContainerStatus{Name: c.Name, RestartCount: c.RestartCount,
			State:                corev1.ContainerState{Waiting: c.State.Waiting, Terminated: ended(c.State.Terminated)},
			LastTerminationState: corev1.ContainerState{Terminated: ended(c.LastTerminationState.Terminated)}}
		out = append(out, kept)
	}
	return out
}

func ended(t *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message, FinishedAt: t.FinishedAt}
}

// ownerOf indexes pods.
func ownerOf(o client.Object) []string {
	if c := metav1.GetControllerOf(o); c != nil {
		return []string{string(c.UID)}
	}
	return nil
}

// pods are those of a workload, as the cache has them. They are not to be changed.
func (r *Reconciler) pods(ctx context.Context, namespace string, owner types.UID) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexOwner: string(owner)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of a gang: %w", err)
	}
	return list.Items, nil
}

// requestsOfPod names the gang to look at when a pod moved.
func (r *Reconciler) requestsOfPod(ctx context.Context, o client.Object) []Request {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != string(gang.Job) && owner.Kind != string(gang.StatefulSet) {
		return nil
	}
	alone := Request{Namespace: o.GetNamespace(), Kind: gang.Kind(owner.Kind), Name: owner.Name}
	name := o.GetLabels()[gang.LabelGang]
	if !r.several(ctx, o.GetNamespace(), name) {
		return []Request{alone}
	}
	if w, ok := gang.NewWorkload(alone.Kind); ok {
		key := client.ObjectKey{Namespace: alone.Namespace, Name: alone.Name}
		if r.Client.Get(ctx, key, w.Object().(client.Object)) == nil && !r.among(ctx, w) {
			return []Request{alone} // of a gang that is called alike
		}
	}
	return []Request{{Namespace: o.GetNamespace(), Gang: name}}
}

// overdue is how long after its grace period a pod is given up: its node does not
// answer, so it may never go, and a gang shall not wait for a node that is lost. What
// still runs there has no part in the gang any more: its addresses are the new pods'.
const overdue = time.Minute

// holds reports whether a pod still keeps its gang from beginning anew.
func holds(pod *corev1.Pod, now time.Time) bool {
	return !finished(pod) && (pod.DeletionTimestamp == nil || now.Before(pod.DeletionTimestamp.Add(overdue)))
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

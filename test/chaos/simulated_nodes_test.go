package chaos

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/podtest"
)

// lifeKey is the label and the taint of the nodes of one life.
const lifeKey = "test.rollcall.training/life"

// simulatedNodes are the nodes of kwok. A life that may need another node has nodes of its own, one for each rank, one
// for each incident, and one more.
type simulatedNodes struct{ client kubernetes.Interface }

func (l life) needsNodes() bool { return l.has(nodeLoss, deviceFault, preflightFailure) }

func (s simulatedNodes) newPodSpec(l life, namespace string) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "trainer", Image: "example.com/train:1"}},
	}
	if l.has(deviceFault) {
		spec.Containers[0].Resources.Limits = corev1.ResourceList{podtest.GPU: resource.MustParse("1")}
	}
	if l.has(preflightFailure) {
		spec.InitContainers = []corev1.Container{{Name: checkName, Image: "example.com/check:1"}}
	}
	if l.needsNodes() {
		spec.NodeSelector = map[string]string{lifeKey: namespace}
		spec.Tolerations = []corev1.Toleration{{Key: lifeKey, Operator: corev1.TolerationOpExists}}
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: singleName}},
			}},
		}}
	}
	return spec
}

func (s simulatedNodes) prepare(ctx context.Context, l life, namespace string) error {
	if !l.needsNodes() {
		return nil
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("20"), podtest.GPU: resource.MustParse("8"),
	}
	for i := range l.Ranks + 1 + int32(len(l.Incidents)) { // each incident can cost one
		name := fmt.Sprintf("%s-%d", namespace, i)
		err := retry(ctx, func() error {
			_, err := s.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
					corev1.LabelHostname: name, lifeKey: namespace, "type": "kwok",
				}},
				Spec: corev1.NodeSpec{Taints: []corev1.Taint{
					{Key: lifeKey, Value: namespace, Effect: corev1.TaintEffectNoSchedule},
				}},
				Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
			}, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s simulatedNodes) hit(ctx context.Context, l life, pod corev1.Pod, i incident) error {
	status := pod.Status.DeepCopy()
	switch i.Cause {
	case deviceFault:
		podtest.SetDeviceHealth(&status.ContainerStatuses[0], corev1.ResourceHealthStatusUnhealthy)
	case preflightFailure: // the training container did not start
		status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"},
		}
		exitContainer(status, &status.InitContainerStatuses[0], i.ExitCode, !isJobPod(pod))
	case programExit:
		isRestarted := !isJobPod(pod) || l.RestartsInPlace && i.ExitCode != 0
		exitContainer(status, &status.ContainerStatuses[0], i.ExitCode, isRestarted)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// exitContainer reports the exit of a container of a pod, as a kubelet does that restarts the container or not.
func exitContainer(status *corev1.PodStatus, container *corev1.ContainerStatus, code int32, isRestarted bool) {
	now := metav1.Now()
	exited := &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", FinishedAt: now}
	switch code {
	case 0:
		exited.Reason = "Completed"
	case 137:
		exited.Reason = "OOMKilled"
	}
	if isRestarted {
		container.LastTerminationState.Terminated = exited
		container.RestartCount++
		return
	}
	container.State, container.Ready = corev1.ContainerState{Terminated: exited}, false
	status.Phase = corev1.PodFailed
	if code == 0 {
		status.Phase = corev1.PodSucceeded
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, now
		}
	}
}

// fail deletes the node of a pod, as a cloud provider does.
func (s simulatedNodes) fail(ctx context.Context, _ cause, pod corev1.Pod) (func(context.Context) error, error) {
	err := retry(ctx, func() error {
		return s.client.CoreV1().Nodes().Delete(ctx, pod.Spec.NodeName, metav1.DeleteOptions{})
	})
	if apierrors.IsNotFound(err) { // the response was lost, because no other life uses the node
		err = nil
	}
	return func(context.Context) error { return nil }, err
}

func (s simulatedNodes) cleanUp(ctx context.Context, namespace string) error {
	return retry(ctx, func() error {
		return s.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: lifeKey + "=" + namespace})
	})
}

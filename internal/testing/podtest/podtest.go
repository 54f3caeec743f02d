package podtest

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// CreationTime is the creation time of all pods of this package.
var CreationTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// At returns the time n seconds after [CreationTime].
func At(n int) time.Time { return CreationTime.Add(time.Duration(n) * time.Second) }

// NewVariables returns n variables of a user with names and values of ordinary length.
func NewVariables(n int) []corev1.EnvVar {
	var out []corev1.EnvVar
	for i := range n {
		out = append(out, corev1.EnvVar{Name: fmt.Sprintf("USER_VARIABLE_%d", i), Value: "some value of ordinary length"})
	}
	return out
}

// RankPod returns a running, ready pod of an Indexed Job in attempt 1. The change, which can be nil,
// edits the pod.
func RankPod(index int, change func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("train-%d-x", index),
			CreationTimestamp: metav1.NewTime(CreationTime),
			Labels: map[string]string{
				batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index),
				gang.LabelAttempt:                    "1",
			},
		},
		Spec: corev1.PodSpec{NodeName: "node-a"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name:  "trainer",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
	if change != nil {
		change(&pod)
	}
	return pod
}

// GPU is the resource of the devices of [SetDeviceHealth].
const GPU corev1.ResourceName = "nvidia.com/gpu"

// SetDeviceHealth sets the health of the only device of a container, as a kubelet reports it (KEP-4680).
func SetDeviceHealth(c *corev1.ContainerStatus, health corev1.ResourceHealthStatus) {
	c.AllocatedResourcesStatus = []corev1.ResourceStatus{{
		Name: GPU, Resources: []corev1.ResourceHealth{{ResourceID: "gpu-0", Health: health}},
	}}
}

// Terminated returns a change that terminates the training container with an exit code, the given
// number of seconds after [CreationTime]. If restarted is true, the kubelet has restarted the
// container in place.
func Terminated(code int32, seconds int, restarted bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		terminated := &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", Message: "last words\n", FinishedAt: metav1.NewTime(At(seconds)),
		}
		c := &pod.Status.ContainerStatuses[0]
		if restarted {
			c.LastTerminationState.Terminated, c.RestartCount = terminated, 1
			return
		}
		c.State = corev1.ContainerState{Terminated: terminated}
		if code == 0 {
			pod.Status.Phase = corev1.PodSucceeded
		}
	}
}

// Deleted returns a change that requests the deletion of the pod with a grace period of 30 seconds,
// the given number of seconds after [CreationTime].
func Deleted(seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		const gracePeriod = 30
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(At(seconds + gracePeriod)))
		pod.DeletionGracePeriodSeconds = ptr.To[int64](gracePeriod)
	}
}

// WithSidecar returns a change that adds a sidecar. The sidecar terminated with the exit code, the
// given number of seconds after [CreationTime], or still runs if the code is negative.
func WithSidecar(code int32, seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if code >= 0 {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, FinishedAt: metav1.NewTime(At(seconds)),
			}}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: "logs", State: state})
	}
}

// OfStatefulSet changes the labels of the pod to those of a StatefulSet's pod.
func OfStatefulSet(pod *corev1.Pod) {
	pod.Labels = map[string]string{appsv1.PodIndexLabel: fmt.Sprint(gang.PodIndex(pod))}
}

// Tracked adds the finalizer of the Job controller and another finalizer.
func Tracked(p *corev1.Pod) {
	p.Namespace = "team"
	p.Finalizers = []string{batchv1.JobTrackingFinalizer, "example.com/keep"}
}

// Drained is a change of a pod that is tracked and being deleted.
func Drained(p *corev1.Pod) {
	Tracked(p)
	Deleted(10)(p)
}

// OnLostNode returns a change by which the node lifecycle controller finds the node of the pod lost, the given
// number of seconds after [CreationTime].
func OnLostNode(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(At(seconds))},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}
	}
}

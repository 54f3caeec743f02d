package failure_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// withKubeletEviction returns a change by which the kubelet evicts the pod.
func withKubeletEviction(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory"
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type:               corev1.DisruptionTarget,
			Status:             corev1.ConditionTrue,
			Reason:             "TerminationByKubelet",
			LastTransitionTime: metav1.NewTime(podtest.At(seconds)),
		})
	}
}

func newKubeletEvictionFailure(seconds int) *failure.Failure {
	return &failure.Failure{
		Rank:    1,
		Pod:     "train-0-x",
		Node:    "node-a",
		Reason:  "TerminationByKubelet",
		Message: "The node was low on memory",
		Time:    podtest.At(seconds),
	}
}

func withOOMKilledContainer(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
}

// withLostContainer reports the container as the kubelet does after it lost the container.
func withLostContainer(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated.FinishedAt = metav1.Time{}
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(podtest.At(20))
}

func withAPIEviction(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type:   corev1.DisruptionTarget,
		Status: corev1.ConditionTrue,
		Reason: "EvictionByEvictionAPI",
	})
}

// withRestartedProxy adds a native sidecar that failed before and runs again.
func withRestartedProxy(p *corev1.Pod) {
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", RestartCount: 1,
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.NewTime(podtest.At(20))},
		}}}
}

// TestFirst checks which failure of the pods of a member is the first.
func TestFirst(t *testing.T) {
	running := failure.Context{Attempt: 1, LastRestartTime: podtest.At(-10)}
	training, stopping := running, running
	training.TrainingContainers, stopping.Terminating = []string{"trainer"}, true
	failureOf := func(rank int32, code int32, reason string, seconds int) *failure.Failure {
		f := &failure.Failure{
			Rank:   rank,
			Pod:    fmt.Sprintf("train-%d-x", rank-1),
			Node:   "node-a",
			Reason: reason,
			Time:   podtest.At(seconds),
		}
		if code != 0 {
			f.Container, f.ExitCode, f.Message = "trainer", code, "last words"
		}
		return f
	}
	both := func(f ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, g := range f {
				g(p)
			}
		}
	}
	for name, c := range map[string]struct {
		pods    []corev1.Pod
		context failure.Context
		want    *failure.Failure
	}{
		"no pod failed": {pods: []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, nil)}, context: running},
		"rank succeeded before its peers": {
			pods:    []corev1.Pod{podtest.RankPod(0, podtest.Terminated(0, 20, false)), podtest.RankPod(1, nil)},
			context: running,
		},
		"succeeded pod is deleted": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(0, 20, false), podtest.Deleted(26)))},
			context: running,
		},
		"program exits with code 0 on SIGTERM on a node whose clock is behind": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Deleted(20), podtest.Terminated(0, 17, false)))},
			context: running,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 20),
		},
		"program exits with code 0 on the SIGTERM of a deletion": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Deleted(20), podtest.Terminated(0, 20, false)))},
			context: running,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 20),
		},
		"program exits with code 0 on the SIGTERM of an eviction that the kubelet has confirmed": {
			pods: []corev1.Pod{podtest.RankPod(0, both(
				podtest.Terminated(0, 21, false), podtest.Deleted(22), withGracePeriod(0), withDisruptionAt(20)))},
			context: running,
			want:    failureOf(1, 0, "EvictionByEvictionAPI", 20),
		},
		"container exited": {
			pods:    []corev1.Pod{podtest.RankPod(0, nil), podtest.RankPod(1, podtest.Terminated(3, 20, false))},
			context: running,
			want:    failureOf(2, 3, "Error", 20),
		},
		"container restarted in its pod": {
			pods:    []corev1.Pod{podtest.RankPod(1, podtest.Terminated(3, 20, true))},
			context: running,
			want:    failureOf(2, 3, "Error", 20),
		},
		"container failed, ran again in its pod, and succeeded": {
			pods: []corev1.Pod{podtest.RankPod(1, both(podtest.Terminated(3, 20, true), func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodSucceeded
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(podtest.At(22))},
				}
			}))},
			context: running,
			want:    failureOf(2, 3, "Error", 20),
		},
		"earliest of several failures": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Terminated(1, 22, true)),
				podtest.RankPod(1, podtest.Terminated(9, 20, true)),
				podtest.RankPod(2, podtest.Terminated(1, 21, true)),
			},
			context: running,
			want:    failureOf(2, 9, "Error", 20),
		},
		"signal comes before exit code 1 of the same second": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Terminated(1, 20, true)),
				podtest.RankPod(1, podtest.Terminated(139, 20, true)),
				podtest.RankPod(2, podtest.Terminated(1, 20, true)),
			},
			context: running,
			want:    failureOf(2, 139, "Error", 20),
		},
		"SIGTERM does not come before exit code 1 of the same second": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Terminated(1, 20, true)),
				podtest.RankPod(1, podtest.Terminated(143, 20, true)),
			},
			context: running,
			want:    failureOf(1, 1, "Error", 20),
		},
		"deletion counts from its request and not from the end of the grace period": {
			pods:    []corev1.Pod{podtest.RankPod(0, podtest.Deleted(20))},
			context: running,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 20),
		},
		"container exited because of the deletion": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Deleted(20), podtest.Terminated(143, 21, false)))},
			context: running,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 20),
		},
		"container exited before the deletion": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 14, false), podtest.Deleted(20)))},
			context: running,
			want:    failureOf(1, 3, "Error", 14),
		},
		"container exited because of the deletion, on a node whose clock is behind": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 15, false), podtest.Deleted(20)))},
			context: running,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 20),
		},
		"kubelet that restarts a container does not know of the deletion": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 19, true), podtest.Deleted(20)))},
			context: running,
			want:    failureOf(1, 3, "Error", 19),
		},
		"pod of an earlier attempt": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 5, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(-60))
			}))},
			context: running,
		},
		"confirmed termination of an earlier attempt moves its deletion": {
			pods: []corev1.Pod{
				podtest.RankPod(0, both(podtest.Terminated(3, 5, true), podtest.Terminated(137, 8, false), func(p *corev1.Pod) {
					p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(-60))
					p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(podtest.At(12))), ptr.To[int64](0)
				})),
			},
			context: failure.Context{Attempt: 1, LastRestartTime: podtest.At(6), AttemptStartTime: podtest.At(10)},
		},
		"pod of an earlier attempt is deleted by force": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Deleted(20), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(-60))
			}))},
			context: running,
		},
		"pod of an earlier attempt, on a node whose clock is ahead, while the gang restarts": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 12, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(-60))
			}))},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(10), JobStartTime: podtest.At(10)},
		},
		"pod of an earlier attempt that failed in its first second, by a clock ahead": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 12, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(12))
			}))},
			context: failure.Context{
				Attempt: 1, TemplateAttempt: 1, LastRestartTime: podtest.At(10), AttemptStartTime: podtest.At(11),
				JobStartTime: podtest.At(13),
			},
		},
		"Job resumed externally keeps the label of the earlier attempt": {
			pods: []corev1.Pod{
				podtest.RankPod(
					1,
					both(podtest.Terminated(3, 20, false), func(p *corev1.Pod) { p.Labels[gang.LabelAttempt] = "0" }),
				),
			},
			context: running,
			want:    failureOf(2, 3, "Error", 20),
		},
		"Job resumed externally by a Job controller whose clock is ahead": {
			pods: []corev1.Pod{podtest.RankPod(1, both(podtest.Terminated(3, 20, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(9))
			}))},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(8), JobStartTime: podtest.At(10)},
			want:    failureOf(2, 3, "Error", 20),
		},
		"Job resumed externally by a Job controller that writes the start after it created the pods": {
			pods: []corev1.Pod{podtest.RankPod(1, both(podtest.Terminated(3, 40, false), func(p *corev1.Pod) {
				p.Labels[gang.LabelAttempt], p.CreationTimestamp = "0", metav1.NewTime(podtest.At(10))
			}))},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(10), JobStartTime: podtest.At(14)},
			want:    failureOf(2, 3, "Error", 40),
		},
		"pod that failed before a user resumed the Job": {
			pods: []corev1.Pod{
				podtest.RankPod(1, both(podtest.Terminated(3, 20, false), ofFirstAttempt)),
			},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(20)},
		},
		"pod that failed after a user resumed the Job with its former label": {
			pods: []corev1.Pod{
				podtest.RankPod(1, both(podtest.Terminated(3, 21, false), ofFirstAttempt)),
			},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(20)},
			want:    failureOf(2, 3, "Error", 21),
		},
		"container was restarted while another member was suspended": {
			pods:    []corev1.Pod{podtest.RankPod(1, podtest.Terminated(3, 20, true))},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(30), ResumeTime: podtest.At(20)},
		},
		"container was restarted before a manager observed that the gang was resumed": {
			pods:    []corev1.Pod{podtest.RankPod(1, podtest.Terminated(3, 20, true))},
			context: failure.Context{Attempt: 1, AttemptStartTime: podtest.At(30), ResumeTime: podtest.At(19)},
			want:    failureOf(2, 3, "Error", 20),
		},
		"pods of a StatefulSet have no attempt label": {
			pods: []corev1.Pod{
				podtest.RankPod(
					1,
					both(podtest.Terminated(3, 20, true), func(p *corev1.Pod) { delete(p.Labels, gang.LabelAttempt) }),
				),
			},
			context: running,
			want:    failureOf(2, 3, "Error", 20),
		},
		"kubelet evicted the pod": {
			pods: []corev1.Pod{podtest.RankPod(0, func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Conditions: []corev1.PodCondition{
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(podtest.At(20))}}}
			})},
			context: running,
			want:    failureOf(1, 0, "Evicted", 20),
		},
		"kubelet evicted the pod of a StatefulSet, which its controller deleted": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(137, 20, false), func(p *corev1.Pod) {
				both(podtest.OfStatefulSet, podtest.Deleted(21))(p)
				p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
				p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(podtest.At(20))
			}))},
			context: running,
			want:    failureOf(1, 0, "Evicted", 20),
		},
		"eviction through the API": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Deleted(20), func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
					Type:   corev1.DisruptionTarget,
					Status: corev1.ConditionTrue,
					Reason: "EvictionByEvictionAPI",
				})
			}))},
			context: running,
			want:    failureOf(1, 0, "EvictionByEvictionAPI", 20),
		},
		"container exited because of the eviction": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(137, 21, false), withKubeletEviction(20)))},
			context: running,
			want:    newKubeletEvictionFailure(21),
		},
		"container exited because of the eviction, and its sidecar ran for a grace period": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(143, 20, false), withKubeletEviction(50)))},
			context: running,
			want:    newKubeletEvictionFailure(20),
		},
		"container exited because of the eviction before the gang restarted": {
			pods: []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(143, 20, false),
				both(withKubeletEviction(22), podtest.Deleted(21))))},
			context: failure.Context{Terminating: true, TerminationStartTime: podtest.At(21)},
			want:    newKubeletEvictionFailure(20),
		},
		"container exited with code 0 because of the eviction": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(withKubeletEviction(22), podtest.Terminated(0, 20, false)))},
			context: running,
			want:    newKubeletEvictionFailure(20),
		},
		"container was restarted before the eviction": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.Terminated(3, 19, true), withKubeletEviction(20)))},
			context: running,
			want:    failureOf(1, 3, "Error", 19),
		},
		"exit of a sidecar is not a failure of the rank": {
			pods:    []corev1.Pod{podtest.RankPod(0, podtest.WithSidecar(1, 20))},
			context: training,
		},
		"sidecar fails the pod, and a native sidecar ran again before": {
			pods: []corev1.Pod{
				podtest.RankPod(
					0,
					both(
						podtest.Terminated(0, 20, false),
						podtest.WithSidecar(1, 21),
						withRestartedProxy,
						func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
					),
				),
			},
			context: training,
			want: &failure.Failure{
				Rank:      1,
				Pod:       "train-0-x",
				Node:      "node-a",
				Container: "logs",
				Auxiliary: true,
				ExitCode:  1,
				Reason:    "Error",
				Time:      podtest.At(21),
			},
		},
		"exit of the training container counts after the exit of a sidecar": {
			pods:    []corev1.Pod{podtest.RankPod(0, both(podtest.WithSidecar(1, 10), podtest.Terminated(3, 20, true)))},
			context: training,
			want:    failureOf(1, 3, "Error", 20),
		},
		"restarted native sidecar is not a failure of the rank": {
			pods:    []corev1.Pod{podtest.RankPod(0, withRestartedProxy)},
			context: training,
		},
		"init container fails the pod": {
			pods: []corev1.Pod{podtest.RankPod(0, func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: "fetch",
					State: corev1.ContainerState{
						Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: metav1.NewTime(podtest.At(20))},
					}}}}
			})},
			context: training,
			want: &failure.Failure{
				Rank:      1,
				Pod:       "train-0-x",
				Node:      "node-a",
				Container: "fetch",
				Auxiliary: true,
				ExitCode:  2,
				Reason:    "Error",
				Time:      podtest.At(20),
			},
		},
		"Job pod is deleted while only its sidecar runs": {
			pods: []corev1.Pod{
				podtest.RankPod(0, both(podtest.Terminated(0, 20, true), podtest.WithSidecar(-1, 0), podtest.Deleted(25))),
			},
			context: training,
			want:    failureOf(1, 0, failure.ReasonPodDeleted, 25),
		},
		"StatefulSet pod is deleted after its rank succeeded": {
			pods: []corev1.Pod{
				podtest.RankPod(
					0,
					both(podtest.Terminated(0, 20, true), podtest.WithSidecar(-1, 0), podtest.Deleted(26), podtest.OfStatefulSet),
				),
			},
			context: training,
		},
		"kubelet failed a StatefulSet pod whose program exited with code 0": {
			pods: []corev1.Pod{
				podtest.RankPod(0, both(podtest.Terminated(0, 20, false), withKubeletEviction(21), podtest.OfStatefulSet)),
			},
			context: training,
			want:    newKubeletEvictionFailure(20),
		},
		"pods terminate with their gang": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Deleted(20)),
				podtest.RankPod(1, both(podtest.Deleted(20), podtest.Terminated(143, 21, false))),
			},
			context: stopping,
		},
		"container exited before its gang was terminated": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Deleted(20)),
				podtest.RankPod(1, both(podtest.Deleted(20), podtest.Terminated(3, 19, false))),
			},
			context: stopping,
			want:    failureOf(2, 3, "Error", 19),
		},
		"OOM kill while the gang terminates": {
			pods: []corev1.Pod{
				podtest.RankPod(1, both(podtest.Terminated(137, 20, false), podtest.Deleted(20), withOOMKilledContainer)),
			},
			context: stopping,
			want:    failureOf(2, 137, "OOMKilled", 20),
		},
		"eviction while the gang terminates": {
			pods: []corev1.Pod{
				podtest.RankPod(0, podtest.Deleted(20)),
				podtest.RankPod(1, both(podtest.Deleted(20), withAPIEviction)),
			},
			context: stopping,
			want:    failureOf(2, 0, "EvictionByEvictionAPI", 20),
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The first rank of this member is 1.
			if diff := cmp.Diff(c.want, failure.First(c.pods, 1, c.context)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailureMessage(t *testing.T) {
	long := strings.Repeat("x", 5000) + "\n" + strings.Repeat("é", 200)
	p := podtest.RankPod(0, podtest.Terminated(1, 20, false))
	p.Status.ContainerStatuses[0].State.Terminated.Message = long
	f := failure.First([]corev1.Pod{p}, 0, failure.Context{})
	if want := "… " + strings.Repeat("é", 200); f.Message != want {
		t.Errorf("the message is %q, want the last complete line", f.Message)
	}
	want := "rank 0 (pod train-0-x on node node-a): Error, container trainer exited with code 1: … é"
	if !strings.HasPrefix(f.String(), want) {
		t.Errorf("%q does not start with %q", f.String(), want)
	}
}

// withGracePeriod sets the grace period of a pod that is deleted, as a confirmed deletion does.
func withGracePeriod(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		requested := p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
		p.DeletionTimestamp = ptr.To(metav1.NewTime(requested.Add(time.Duration(seconds) * time.Second)))
		p.DeletionGracePeriodSeconds = ptr.To(seconds)
	}
}

// withDisruptionAt adds the condition of an eviction.
func withDisruptionAt(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
			LastTransitionTime: metav1.NewTime(podtest.At(seconds)),
		})
	}
}

// ofFirstAttempt gives a pod the label of the first attempt.
func ofFirstAttempt(pod *corev1.Pod) { pod.Labels[gang.LabelAttempt] = "0" }

package failure_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// TestFirstDuringTermination checks exits around the time at which a gang is terminated.
// Kubernetes keeps times to the second, and a gang is often terminated in the second in which its
// ranks fail.
func TestFirstDuringTermination(t *testing.T) {
	stopped := failure.Context{Attempt: 1, Terminating: true, TerminationStartTime: podtest.At(20)}
	held := failure.Context{Attempt: 1, Terminating: true}
	withConfirmedDeletion := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(podtest.At(23))), ptr.To[int64](0)
	}
	at := func(seconds int, change ...func(*failure.Failure)) *failure.Failure {
		f := &failure.Failure{
			Rank:      0,
			Pod:       "train-0-x",
			Node:      "node-a",
			Container: "trainer",
			ExitCode:  1,
			Reason:    "Error",
			Message:   "last words",
			Time:      podtest.At(seconds),
		}
		for _, c := range change {
			c(f)
		}
		return f
	}
	mayBeTerminated := func(f *failure.Failure) { f.MaybeTerminated = true }
	killed := func(f *failure.Failure) { f.Reason = "OOMKilled" }
	deletion := &failure.Failure{
		Rank:   0,
		Pod:    "train-0-x",
		Node:   "node-a",
		Reason: failure.ReasonPodDeleted,
		Time:   podtest.At(20),
	}
	for name, c := range map[string]struct {
		changes []func(*corev1.Pod)
		context failure.Context
		want    *failure.Failure
	}{
		"kubelet restarted the container before the deletion": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, true), podtest.Deleted(20)},
			context: stopped,
			want:    at(20),
		},
		"container of a suspended gang restarted after the deletion": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, true), podtest.Deleted(20)},
			context: held,
		},
		"first exit of a restarted container counts": {
			changes: []func(*corev1.Pod){
				podtest.Terminated(1, 20, true),
				podtest.Terminated(137, 22, false),
				podtest.Deleted(20),
			},
			context: stopped,
			want:    at(20),
		},
		"container exited": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), podtest.Deleted(20)},
			context: stopped,
			want:    at(20, mayBeTerminated),
		},
		"container of a suspended gang exited": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), podtest.Deleted(20)},
			context: held,
		},
		"container exited before its pod was deleted but after the decision": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false)},
			context: stopped,
			want:    at(20, mayBeTerminated),
		},
		"container exited after the deletion": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, false), podtest.Deleted(20)},
			context: stopped,
		},
		"confirmed termination moves the deletion after the exit": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, false), withConfirmedDeletion},
			context: stopped,
			want:    at(21, mayBeTerminated),
		},
		"exit within the clock tolerance of a confirmed termination": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 19, false), withConfirmedDeletion},
			context: stopped,
			want:    at(19, mayBeTerminated),
		},
		"restarted container may have lost a terminated peer": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, true)},
			context: stopped,
			want:    at(21, mayBeTerminated),
		},
		"container exited after the decision and before its own deletion": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, false), podtest.Deleted(23)},
			context: stopped,
			want:    at(21, mayBeTerminated),
		},
		"exit long before a confirmed termination is certain": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 18, false), withConfirmedDeletion},
			context: stopped,
			want:    at(18),
		},
		"restart before the suspension is a failure": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 19, true), podtest.Deleted(20)},
			context: held,
			want:    at(19),
		},
		"exit before the termination is certain": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 19, false), podtest.Deleted(20)},
			context: stopped,
			want:    at(19),
		},
		"exit before a decision by a clock that is ahead": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), podtest.Deleted(20)},
			context: failure.Context{Attempt: 1, Terminating: true, TerminationStartTime: podtest.At(22)},
			want:    at(20, mayBeTerminated),
		},
		"signal before the termination did not come from Rollcall": {
			changes: []func(*corev1.Pod){podtest.Terminated(143, 18, false), podtest.Deleted(20)},
			context: stopped,
			want:    at(18, func(f *failure.Failure) { f.ExitCode = 143 }),
		},
		"SIGINT is a termination signal of some images": {
			changes: []func(*corev1.Pod){podtest.Terminated(130, 20, false), podtest.Deleted(20)},
			context: stopped,
		},
		"exit before the decision in a pod that is not deleted": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 19, false)},
			context: stopped,
			want:    at(19),
		},
		"OOM kill before the deletion of its own pod": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), withOOMKilledContainer, podtest.Deleted(22)},
			context: failure.Context{Attempt: 1, Terminating: true, TerminationStartTime: podtest.At(18)},
			want:    at(20, killed),
		},
		"OOM kill in a suspended gang": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), withOOMKilledContainer, withConfirmedDeletion},
			context: held,
			want:    at(20, killed),
		},
		"node shutdown terminated the container": {
			changes: []func(*corev1.Pod){
				podtest.Terminated(143, 21, false),
				podtest.Deleted(20),
				withAPIEviction,
				func(p *corev1.Pod) {
					p.Status.Conditions[len(p.Status.Conditions)-1].LastTransitionTime = metav1.NewTime(podtest.At(19))
				},
			},
			context: stopped,
			want: &failure.Failure{
				Rank:   0,
				Pod:    "train-0-x",
				Node:   "node-a",
				Reason: "EvictionByEvictionAPI",
				Time:   podtest.At(19),
			},
		},
		"eviction through the API": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), podtest.Deleted(20), withAPIEviction},
			context: stopped,
			want: &failure.Failure{
				Rank:   0,
				Pod:    "train-0-x",
				Node:   "node-a",
				Reason: "EvictionByEvictionAPI",
				Time:   podtest.At(20),
			},
		},
		"sidecar exited without a restart before the training container": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, true), podtest.WithSidecar(1, 20)},
			context: stopped,
			want: &failure.Failure{
				Rank:            0,
				Pod:             "train-0-x",
				Node:            "node-a",
				Container:       "logs",
				ExitCode:        1,
				Reason:          "Error",
				MaybeTerminated: true,
				Time:            podtest.At(20),
			},
		},
		"init container has no peers": {
			changes: []func(*corev1.Pod){func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{
						ExitCode:   1,
						FinishedAt: metav1.NewTime(podtest.At(20)),
						Message:    "gloo/transport/",
					}}}}
			}},
			context: failure.Context{Attempt: 1},
			want: &failure.Failure{
				Rank:      0,
				Pod:       "train-0-x",
				Node:      "node-a",
				Container: "fetch",
				Auxiliary: true,
				ExitCode:  1,
				Reason:    "Error",
				Message:   "gloo/transport/",
				Time:      podtest.At(20),
			},
		},
		"container exited by SIGTERM": {
			changes: []func(*corev1.Pod){podtest.Terminated(143, 20, false), podtest.Deleted(20)},
			context: stopped,
		},
		"OOM kill while the container terminated": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 21, false), withOOMKilledContainer, withConfirmedDeletion},
			context: stopped,
		},
		"kubelet lost the container of a deleted pod": {
			changes: []func(*corev1.Pod){podtest.Terminated(137, 20, true), withLostContainer, podtest.Deleted(20)},
			context: stopped,
		},
		"lost container fails when the kubelet reports it": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 30, true), withLostContainer},
			context: stopped,
			want:    at(20),
		},
		"OOM kill in the second of the termination": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), withOOMKilledContainer, podtest.Deleted(20)},
			context: stopped,
			want:    at(20, killed),
		},
		"external deletion is the cause of an exit": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, false), podtest.Deleted(20)},
			context: failure.Context{Attempt: 1},
			want:    deletion,
		},
		"container restarted before the external deletion": {
			changes: []func(*corev1.Pod){podtest.Terminated(1, 20, true), podtest.Deleted(20)},
			context: failure.Context{Attempt: 1},
			want:    at(20),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podtest.RankPod(0, func(p *corev1.Pod) {
				for _, change := range c.changes {
					change(p)
				}
			})
			if diff := cmp.Diff(c.want, failure.First([]corev1.Pod{pod}, 0, c.context)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

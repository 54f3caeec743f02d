package failure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/testing/podtest"
)

// withTerminationMessage returns a change that sets the termination message of the rank.
func withTerminationMessage(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		podtest.Terminated(1, 20, true)(p)
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = text
	}
}

// TestLostPeer checks that a rank that reports a lost peer is not the first of failures in the
// same second, whatever its number. The messages are those that the libraries print.
func TestLostPeer(t *testing.T) {
	// Messages of ranks that are healthy or that fail without a lost peer.
	innocent := []string{
		"RuntimeError: the reason of the failure",
		"[Gloo] Rank 1 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\nValueError: x",
		"I0000 coordination_service_agent.cc:245] Coordination agent has successfully connected.\nValueError: x",
		"[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\nValueError: x",
		"tcp_utils.cc:132] Successfully connected to train-0.train.team.svc.cluster.local:55058\nValueError: x",
		"torch.OutOfMemoryError: CUDA out of memory.",
		"WARNING: read from the bucket failed, trying again: ConnectionResetError(104, 'Connection reset " +
			"by peer')\nValueError: x",
		"BrokenPipeError: [Errno 32] Broken pipe",
		"UnavailableError: Collective ops is aborted by: Error invoking NCCL: unhandled cuda error",
		"requests.exceptions.ConnectionError: [Errno 111] Connection refused",
	}
	for name, text := range map[string]string{
		"PyTorch with Gloo": "[rank0]: RuntimeError: [./gloo/transport/tcp/pair.cc:534] Connection " +
			"closed by peer [198.18.1.3]:25815",
		"PyTorch with NCCL": "ncclRemoteError: A call failed possibly due to a network error or a " +
			"remote process exiting prematurely.",
		"sockets of NCCL": "Last error:\nsocketProgressOpt: Call to recv from 10.0.0.7<43210> failed " +
			": Connection reset by peer",
		"NCCL": "NCCL failure 6: remote process exited or there was a network error",
		"Paddle with Gloo": "RuntimeError: [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:584] " +
			"TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [198.18.1.8]:43170",
		"XGBoost": "- [allreduce.cc:135|22:09:15]: Ring Allreduce failed.\n" +
			"- [socket.h:79|22:09:15]: Poll error condition:Success code:0\nStack trace:\n",
		"LightGBM":       "lightgbm.basic.LightGBMError: Socket recv error, Connection reset by peer (code: 104)\n",
		"LightGBM sends": "lightgbm.basic.LightGBMError: Socket send error, Broken pipe (code: 32)\n",
		"coordination of JAX": "Existing error: ABORTED: 1 unexpectedly tried to connect with a different " +
			"incarnation. [type.googleapis.com/tensorflow.CoordinationServiceError='']",
		"TensorFlow": "Collective ops is aborted by: Error reported from /job:worker/task:1: The " +
			"following tasks are unhealthy (stopped sending heartbeats):\n",
		"the agent": "rollcall: the connection to host train-worker-0.train.team.svc.cluster.local ended: read tcp " +
			"198.18.17.36:40064->198.18.33.20:2222: i/o timeout\nA daemon has failed.",
		"JAX": "Terminating process because the JAX distributed service detected fatal " +
			"errors. This most likely indicates that another task died; see the other task logs",
	} {
		for _, own := range innocent {
			pods := []corev1.Pod{
				podtest.RankPod(0, withTerminationMessage(text)),
				podtest.RankPod(1, withTerminationMessage(own)),
				podtest.RankPod(2, withTerminationMessage(text)),
			}
			got := failure.First(pods, 0, failure.Context{Attempt: 1})
			if got == nil || got.Rank != 1 || got.LostPeer {
				t.Errorf("%s: first of ranks with the messages %q and %q: %+v", name, text, own, got)
			}
		}
		if got := failure.First([]corev1.Pod{
			podtest.RankPod(0, withTerminationMessage(text)),
		}, 0, failure.Context{Attempt: 1}); got == nil || !got.LostPeer {
			t.Errorf("%s: a single rank with a lost peer: %+v", name, got)
		}
	}
}

package gang_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// says lets the rank's last words be those.
func says(words string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ended(1, 20, true)(p)
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = words
	}
}

// TestPeer: among ranks that fall within the same second, one that says that it lost another
// is not the first, whatever its number. The words are those that the libraries print.
func TestPeer(t *testing.T) {
	// Printed by a rank that is well, or that falls for a reason of its own.
	innocent := []string{
		"RuntimeError: a rank says why it falls",
		"[Gloo] Rank 1 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\nValueError: x",
		"I0000 coordination_service_agent.cc:245] Coordination agent has successfully connected.\nValueError: x",
		"[LightGBM] [Warning] Connecting to rank 1 failed, waiting for 200 milliseconds\nValueError: x",
		"tcp_utils.cc:132] Successfully connected to train-0.train.team.svc.cluster.local:55058\nValueError: x",
		"torch.OutOfMemoryError: CUDA out of memory.",
		"WARNING: read from the bucket failed, trying again: ConnectionResetError(104, 'Connection reset by peer')\nValueError: x",
		"BrokenPipeError: [Errno 32] Broken pipe",
		"UnavailableError: Collective ops is aborted by: Error invoking NCCL: unhandled cuda error",
		"requests.exceptions.ConnectionError: [Errno 111] Connection refused",
	}
	for name, words := range map[string]string{
		"PyTorch with Gloo": "[rank0]: RuntimeError: [./gloo/transport/tcp/pair.cc:534] Connection closed by peer [198.18.1.3]:25815",
		"PyTorch with NCCL": "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
		"NCCL's sockets":    "Last error:\nsocketProgressOpt: Call to recv from 10.0.0.7<43210> failed : Connection reset by peer",
		"NCCL":              "NCCL failure 6: remote process exited or there was a network error",
		"Paddle with Gloo":  "RuntimeError: [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1 peer_str = [198.18.1.8]:43170",
		"XGBoost":           "- [allreduce.cc:135|22:09:15]: Ring Allreduce failed.\n- [socket.h:79|22:09:15]: Poll error condition:Success code:0\nStack trace:\n",
		"LightGBM":          "lightgbm.basic.LightGBMError: Socket recv error, Connection reset by peer (code: 104)\n",
		"LightGBM, sending": "lightgbm.basic.LightGBMError: Socket send error, Broken pipe (code: 32)\n",
		"JAX, its service":  "Existing error: ABORTED: 1 unexpectedly tried to connect with a different incarnation. [type.googleapis.com/tensorflow.CoordinationServiceError='']",
		"TensorFlow":        "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy (stopped sending heartbeats):\n",
		"JAX":               "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs",
	} {
		for _, own := range innocent {
			pods := []corev1.Pod{rankPod(0, says(words)), rankPod(1, says(own)), rankPod(2, says(words))}
			got := gang.FirstFall(pods, 0, gang.Watch{Attempt: 1})
			if got == nil || got.Rank != 1 || got.Peer {
				t.Errorf("%s: the first of ranks that said %q and of one that said %q is %+v", name, words, own, got)
			}
		}
		if got := gang.FirstFall([]corev1.Pod{rankPod(0, says(words))}, 0, gang.Watch{Attempt: 1}); got == nil || !got.Peer {
			t.Errorf("%s: alone, which is a fall all the same: %+v", name, got)
		}
	}
}

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/wait"
)

// publishedRanksProgram trains one step with DistributedDataParallel, and prints whether the name of a
// peer resolves. Then it waits for the name. The name is computed, so the manifest does not contain it.
const publishedRanksProgram = `
import os, socket, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
start = time.time()
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
model(torch.full((1, 1), float(rank))).sum().backward()
gradient = next(model.parameters()).grad.item()
gang, domain = socket.getfqdn().split(".", 1)
peer = f"{gang.rsplit('-', 1)[0]}-{(rank + 1) % 4}.{domain}"
def resolves():
    try:
        return bool(socket.gethostbyname(peer))
    except OSError:
        return False
print(f"process {rank} gradient {gradient} resolves {peer.split('.')[0]} {resolves()} "
      f"after {time.time() - start:.1f} s", flush=True)
while not resolves():
    time.sleep(1)
dist.barrier()
`

// TestPublishedRanks checks that a real gang trains although only rank 0 has a DNS name, with both ways of
// torchrun to find the ranks, and that the annotation adds the other names while the gang runs.
func TestPublishedRanks(t *testing.T) {
	for name, flags := range map[string][]string{
		"static ranks":      nil,
		"ranks of torchrun": {"--rdzv-backend=c10d", "--rdzv-endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "--rdzv-id=train"},
	} {
		t.Run(name, func(t *testing.T) {
			if flags != nil {
				skipUnlessFullRun(t)
			}
			testPublishedRanks(t, flags)
		})
	}
}

func testPublishedRanks(t *testing.T, flags []string) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "step.py", publishedRanksProgram)
	command := append([]string{"python3", "-m", "torch.distributed.run"}, flags...)
	s.createJob(t, ns, "train", 4, map[string]string{gang.AnnotationNprocPerNode: "1"},
		s.newPodSpec(append(command, "step.py")...))
	wait.For(t, "all ranks to train", func(context.Context) error {
		trained := 0
		for _, text := range s.readLogsByPod(t, ns, "train") {
			if strings.Contains(text, "gradient 1.5") { // the mean of the ranks
				trained++
			}
		}
		if trained != 4 {
			return fmt.Errorf("%d ranks", trained)
		}
		return nil
	})
	for pod, text := range s.readLogsByPod(t, ns, "train") {
		t.Logf("%s:\n%s", pod, text)
		for rank, want := range []string{"train-1 False", "train-2 False", "train-3 False", "train-0 True"} {
			if strings.Contains(text, fmt.Sprintf("process %d ", rank)) && !strings.Contains(text, "resolves "+want) {
				t.Errorf("the log of %s does not contain %q", pod, want)
			}
		}
	}
	if n := s.countEndpoints(t, ns); n != 1 {
		t.Errorf("the Service publishes %d addresses, want 1", n)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, gang.AnnotationPublishedRanks, gang.PublishAll)
	if _, err := s.client.BatchV1().Jobs(ns).Patch(
		t.Context(), "train", types.MergePatchType, patch, metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "all addresses", func(context.Context) error {
		if n := s.countEndpoints(t, ns); n != 4 {
			return fmt.Errorf("%d addresses", n)
		}
		return nil
	})
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded)
}

// countEndpoints returns the number of addresses that the Service of the gang publishes.
func (s *testCluster) countEndpoints(t *testing.T, ns string) int {
	t.Helper()
	slices, err := s.client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=train",
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, slice := range slices.Items {
		n += len(slice.Endpoints)
	}
	return n
}

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// splitRanks is the number of ranks of the gang in TestLostNodeDoesNotSplitGang.
const splitRanks = 3

// TestLostNodeDoesNotSplitGang checks that no rank of a new attempt resolves or joins rank 0 of the attempt
// before, which still runs on a lost node. The pods of that node terminate forever, and the Service publishes
// terminating pods.
func TestLostNodeDoesNotSplitGang(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	node := s.addNode(t)
	for _, c := range []struct {
		name       string
		lose, undo func(context.Context) error
		// acceptsConnections means that ranks can reach the lost node.
		acceptsConnections bool
	}{
		{
			name: "the processes of a node without kubelet accept connections", acceptsConnections: true,
			lose: func(context.Context) error { return s.StopNode(node) },
			undo: func(ctx context.Context) error { return s.StartNode(ctx, node) },
		},
		{
			name: "a node without network is not reached",
			lose: func(context.Context) error { return s.CutNode(node) },
			undo: func(context.Context) error { return s.HealNode(node) },
		},
		{
			name: "a machine is off",
			lose: func(context.Context) error { return s.KillNode(node) },
			undo: func(ctx context.Context) error { return s.StartNode(ctx, node) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := s.createNamespace(t)
			s.createRendezvousJob(t, ns, node)
			before := s.waitForJoinedRanks(t, ns, "0")
			for index, pod := range before {
				if pod.Spec.NodeName != node {
					t.Fatalf("rank %s is on node %s, want %s", index, pod.Spec.NodeName, node)
				}
			}
			if err := c.lose(t.Context()); err != nil {
				t.Fatal(err)
			}
			isRestored := false
			t.Cleanup(func() {
				if !isRestored {
					s.restoreLostNode(t, node, c.undo)
				}
			})

			start := time.Now()
			pods := s.waitForJoinedRanks(t, ns, "1")
			t.Logf("all ranks have joined %.0f s after the node was lost", time.Since(start).Seconds())
			s.checkJoinedRanks(t, pods, before["0"])
			if c.acceptsConnections {
				checkPeersOfLostRank(t, before["0"])
			}
			status := s.waitForGangStatus(t, ns, "train", lifecycle.Running, 1)
			if f := status.FirstFailure; status.Restarts != 0 || f == nil || f.Reason != failure.ReasonNodeLost {
				t.Errorf("after %d restarts and %d disruptions, the first failure is %v", status.Restarts, status.Disruptions, f)
			}
			isRestored = true
			s.restoreLostNode(t, node, c.undo)
			s.checkReturnOfLostRanks(t, ns, pods)
		})
	}
}

// createRendezvousJob creates a gang whose ranks start on a node and print which attempt they have joined.
func (s *testCluster) createRendezvousJob(t *testing.T, ns, node string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "rendezvous.py"))
	if err != nil {
		t.Fatal(err)
	}
	s.createProgram(t, ns, "rendezvous.py", string(text))
	spec := s.newPodSpec("python3", "rendezvous.py")
	preferNode(&spec, node)
	s.createJob(t, ns, "train", splitRanks, nil, spec)
}

// restoreLostNode undoes the fault of a node and waits until the node is ready.
func (s *testCluster) restoreLostNode(t *testing.T, node string, undo func(context.Context) error) {
	t.Helper()
	ctx := context.Background()
	if err := undo(ctx); err != nil {
		t.Errorf("restoring the lost node: %v", err)
	}
	if err := s.StartNode(ctx, node); err != nil { // waits, if the node runs
		t.Errorf("waiting for the lost node: %v", err)
	}
}

// checkReturnOfLostRanks checks that the ranks of the attempt before terminate after their node has returned, and that
// those of the next attempt do not notice.
func (s *testCluster) checkReturnOfLostRanks(t *testing.T, ns string, pods map[string]corev1.Pod) {
	t.Helper()
	wait.For(t, "the pods of the attempt before to be gone", func(context.Context) error {
		if remaining := len(s.findAttemptPods(t, ns, "0")); remaining > 0 {
			return fmt.Errorf("%d pods remain", remaining)
		}
		return nil
	})
	s.waitForGangStatus(t, ns, "train", lifecycle.Running, 1)
	for index, pod := range s.findAttemptPods(t, ns, "1") {
		hasRestarted := pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].RestartCount > 0
		if pod.UID != pods[index].UID || hasRestarted {
			t.Errorf("rank %s of the next attempt was disturbed: %+v", index, pod.Status)
		}
	}
	if peers := askRankZero(t, pods["0"]); strings.Contains(peers, "of attempt 0") {
		t.Errorf("rank 0 of the next attempt has the peers %q", peers)
	}
}

// checkJoinedRanks checks what the ranks of an attempt have printed. lost is rank 0 of the attempt before.
func (s *testCluster) checkJoinedRanks(t *testing.T, pods map[string]corev1.Pod, lost corev1.Pod) {
	t.Helper()
	for index, pod := range pods {
		log := s.readPodLog(t, pod)
		if slices.Contains(strings.Fields(log), lost.Status.PodIP) {
			t.Errorf("rank %s resolved the address %s of the attempt before:\n%s", index, lost.Status.PodIP, log)
		}
		if strings.Contains(log, "joined attempt 0") {
			t.Errorf("rank %s joined the attempt before:\n%s", index, log)
		}
		if pod.Spec.NodeName == lost.Spec.NodeName {
			t.Errorf("rank %s is on the lost node", index)
		}
	}
}

// checkPeersOfLostRank checks that rank 0 of the lost node still runs, and that no rank of the next attempt has
// joined it.
func checkPeersOfLostRank(t *testing.T, lost corev1.Pod) {
	t.Helper()
	peers := askRankZero(t, lost)
	if !strings.HasPrefix(peers, "attempt 0: ") || strings.Contains(peers, "of attempt 1") {
		t.Errorf("rank 0 of the attempt before has the peers %q", peers)
	}
}

// addNode adds a node with the image for training, and removes it at the end of the test.
func (s *testCluster) addNode(t *testing.T) string {
	t.Helper()
	node := s.addNodeWithoutImage(t)
	if _, err := s.LoadImage(t.Context(), cluster.Torch); err != nil {
		t.Fatal(err)
	}
	return node
}

// addNodeWithoutImage adds a node and removes it at the end of the test.
func (s *testCluster) addNodeWithoutImage(t *testing.T) string {
	t.Helper()
	node, err := s.AddNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.RemoveNode(context.Background(), node); err != nil {
			t.Errorf("removing the node: %v", err)
		}
	})
	return node
}

// preferNode makes pods start on a node while it accepts pods.
func preferNode(spec *corev1.PodSpec, node string) {
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}},
		}},
	}}
}

// findAttemptPods returns the pods of an attempt by index.
func (s *testCluster) findAttemptPods(t *testing.T, ns, attempt string) map[string]corev1.Pod {
	t.Helper()
	pods := map[string]corev1.Pod{}
	for _, pod := range s.listPods(t, ns, "train") {
		if pod.Labels[gang.LabelAttempt] == attempt {
			pods[podIndex(pod)] = pod
		}
	}
	return pods
}

// waitForJoinedRanks waits until all ranks of an attempt run, and all peers of rank 0 have joined an attempt.
func (s *testCluster) waitForJoinedRanks(t *testing.T, ns, attempt string) map[string]corev1.Pod {
	t.Helper()
	var pods map[string]corev1.Pod
	wait.For(t, "all ranks of attempt "+attempt, func(context.Context) error {
		pods = s.findAttemptPods(t, ns, attempt)
		joined := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning && strings.Contains(s.readPodLog(t, pod), "joined attempt ") {
				joined++
			}
		}
		if len(pods) < splitRanks || joined < splitRanks-1 || pods["0"].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%d pods exist, %d have joined", len(pods), joined)
		}
		return nil
	})
	return pods
}

// askRankZero connects to rank 0 and returns what it sends to its peers.
func askRankZero(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(pod.Status.PodIP, readMasterPort(t, pod)), time.Minute)
	if err != nil {
		t.Fatalf("rank 0 of the lost node does not run, so this test proves nothing: %v", err)
	}
	defer func() { _ = connection.Close() }()
	if _, err := connection.Write([]byte("the test")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1000)
	n, err := connection.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer[:n])
}

// readMasterPort returns the port of the rendezvous of a rank.
func readMasterPort(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	env := pod.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "MASTER_PORT" })
	if i < 0 {
		t.Fatalf("the pod %s has no variable MASTER_PORT", pod.Name)
	}
	return env[i].Value
}

// TestLostNodeOfStatefulSet checks that a gang with a StatefulSet names the lost node and who can help, and that it
// restarts after an administrator has confirmed that the machine is off.
func TestLostNodeOfStatefulSet(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	node := s.addNode(t)
	ns := s.createNamespace(t)
	s.createProgram(t, ns, "train.sh", "trap 'exit 0' TERM\nsleep infinity &\nwait\n")
	spec := s.newPodSpec("sh", "train.sh")
	preferNode(&spec, node)
	g := &terminableGang{testCluster: s, namespace: ns, name: "train", statefulSet: true}
	g.createStatefulSet(t, spec)
	g.waitForRunningRanks(t, 0)
	if err := s.KillNode(node); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	waitForLostNodeReport(t, node, g.read)
	t.Logf("the status names the node %.0f s after it was lost", time.Since(start).Seconds())
	start = time.Now()
	s.taintOutOfService(t, node)
	g.waitForRunningRanks(t, 1)
	t.Logf("all ranks run %.0f s after the node was tainted", time.Since(start).Seconds())
}

// waitForLostNodeReport waits until the status of a restarting gang names the lost node for which it waits, and what an
// administrator can do.
func waitForLostNodeReport(t *testing.T, node string, read func(context.Context) (gang.Workload, error)) {
	t.Helper()
	wait.For(t, "the status to name the lost node", func(ctx context.Context) error {
		w, err := read(ctx)
		if err != nil {
			return err
		}
		status := lifecycle.ReadStatus(w)
		remedy := fmt.Sprintf("delete Node %s or taint it with %s=", node, corev1.TaintNodeOutOfService)
		if status.Phase != lifecycle.Restarting || status.Reason != gang.ReasonPodStuckTerminating ||
			!strings.Contains(status.Message, remedy) {
			return fmt.Errorf("%s, %s: %s", status.Phase, status.Reason, status.Message)
		}
		return nil
	})
}

// taintOutOfService confirms that the machine of a node is off, as docs/troubleshooting.md describes, until the end of
// the test.
func (s *testCluster) taintOutOfService(t *testing.T, node string) {
	t.Helper()
	taint := corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	if _, err := s.Kubectl(t.Context(), "taint", "node", node, taint); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Kubectl(context.Background(), "taint", "node", node, taint+"-"); err != nil {
			t.Errorf("removing the taint: %v", err)
		}
	})
}

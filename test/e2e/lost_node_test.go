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
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
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
			t.Cleanup(func() { s.restoreLostNode(t, node, c.undo) })

			start := time.Now()
			pods := s.waitForJoinedRanks(t, ns, "1")
			t.Logf("all ranks have joined %.0f s after the node was lost", time.Since(start).Seconds())
			s.checkJoinedRanks(t, pods, before["0"])
			if c.acceptsConnections {
				checkPeersOfLostRank(t, before["0"])
			}
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
	node, err := s.AddNode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.RemoveNode(context.Background(), node); err != nil {
			t.Errorf("removing the node: %v", err)
		}
	})
	if _, err := s.LoadImage(t.Context(), cluster.Torch); err != nil {
		t.Fatal(err)
	}
	return node
}

// preferNode makes pods start on a node while it accepts pods, and leave it soon after it is lost.
func preferNode(spec *corev1.PodSpec, node string) {
	spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}},
		}},
	}}
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](5),
		})
	}
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
	env := pod.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "MASTER_PORT" })
	if i < 0 {
		t.Fatal("rank 0 has no variable MASTER_PORT")
	}
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(pod.Status.PodIP, env[i].Value), time.Minute)
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

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// program runs until a file contains its exit code, and makes progress until it has to hang. It exits with code 0 a
// second after SIGTERM, as programs do that save a checkpoint. If all ranks of a Job exit faster than a busy controller
// notices that they are drained, the Job completes (docs/tasks/configure-completion.md).
const program = `trap 'sleep 1; exit 0' TERM
while [ ! -s /tmp/exit ]; do [ -e /tmp/hang ] || echo > ` + progressFile + `; sleep 0.2 & wait $!; done
exit $(cat /tmp/exit)`

// realNodes are the nodes of a cluster. The first runs the control plane and Rollcall. The others run the gangs, and
// can fail.
type realNodes struct {
	*cluster.Cluster
	client kubernetes.Interface
	image  string
	// programs is locked while programs of the cluster start and exit, which only one goroutine at a time may cause.
	programs *sync.Mutex
}

// failingNodes is the number of nodes that run gangs.
const failingNodes = 3

// TestChaosReal runs lives on real nodes while nodes fail, pods of Rollcall are killed and the API server restarts.
func TestChaosReal(t *testing.T) {
	s := readSchedule(t, "REAL_LIVES")
	if os.Getenv("REAL_LIVES") == "" {
		t.Skip("set REAL_LIVES to run lives on real nodes")
	}
	if err := cluster.CanRunReal(); err != nil {
		t.Skipf("real nodes are not possible: %v", err)
	}
	manager, err := installation.NewManagerImage()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{
		Nodes: cluster.Real, RealNodes: 1 + failingNodes, Images: []cluster.ImageSource{manager, cluster.Torch},
	})
	if err := installation.InstallChart(t.Context(), c, "--set", "webhook.timeoutSeconds=30",
		"--set", `nodeSelector.kubernetes\.io/hostname=`+c.RealNodes()[0]); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	image, err := cluster.Torch.Reference()
	if err != nil {
		t.Fatal(err)
	}
	recorder, wait := startRecorder(t.Context(), client)
	t.Cleanup(wait)
	n := realNodes{Cluster: c, client: client, image: image, programs: &sync.Mutex{}}
	r := &runner{client: client, recorder: recorder, nodes: n, faults: realFaults, parallel: realLives}
	runLives(t, n, r, s, func(random *rand.Rand) string {
		r.leader.Lock()
		defer r.leader.Unlock()
		what, err := n.disrupt(t.Context(), random)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return what
	}).print(t)
}

// disrupt restarts the API server, or kills a pod of Rollcall without a grace period, and waits until a controller
// leads.
func (n realNodes) disrupt(ctx context.Context, random *rand.Rand) (string, error) {
	if random.IntN(4) == 0 {
		err := n.change(func() error { return n.RestartAPIServer(ctx) })
		return "API server restarts", errors.Join(err, n.waitForLeader(ctx, time.Now()))
	}
	const what = "kills of a pod of Rollcall"
	pods, err := n.client.CoreV1().Pods(installation.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		return what, err
	}
	killed := pods.Items[random.IntN(len(pods.Items))]
	err = n.client.CoreV1().Pods(installation.Namespace).Delete(ctx, killed.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return what, errors.Join(err, n.waitForLeader(ctx, time.Now()))
}

// waitForLeader waits until a controller that exists has renewed its Lease after a time.
func (n realNodes) waitForLeader(ctx context.Context, after time.Time) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, apiTimeout, true, func(ctx context.Context) (bool, error) {
		lease, err := n.client.CoordinationV1().Leases(installation.Namespace).Get(ctx, "rollcall", metav1.GetOptions{})
		isRenewed := err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(after)
		if !isRenewed {
			return false, nil // the API server may not answer yet
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		_, err = n.client.CoreV1().Pods(installation.Namespace).Get(ctx, holder, metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for a leader: %w", err)
	}
	return nil
}

// newPodSpec returns a pod of a gang that spreads over all nodes that work, except the first.
func (n realNodes) newPodSpec(life, string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		Containers: []corev1.Container{{
			Name: "trainer", Image: n.image, Command: []string{"sh", "-c", program},
		}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: n.RealNodes()[:1],
				}}}},
			},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{gang.LabelGang: singleName}},
			NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor),
		}},
	}
}

func (n realNodes) prepare(context.Context, life, string) error { return nil }

func (n realNodes) cleanUp(context.Context, string) error { return nil }

// change calls f, which starts or ends programs of the cluster.
func (n realNodes) change(f func() error) error {
	n.programs.Lock()
	defer n.programs.Unlock()
	return f()
}

// RestartExited is that of the cluster.
func (n realNodes) RestartExited() (names []string, err error) {
	err = n.change(func() error {
		names, err = n.Cluster.RestartExited()
		return err
	})
	return names, err
}

// fail causes a fault of the node of a pod.
func (n realNodes) fail(ctx context.Context, c cause, pod corev1.Pod) (func(context.Context) error, error) {
	node := pod.Spec.NodeName
	start := func(ctx context.Context) error {
		err := n.change(func() error { return n.StartNode(ctx, node) })
		return errors.Join(err, n.waitForTaints(ctx, node))
	}
	heal := func(ctx context.Context) error { return errors.Join(n.HealNode(node), start(ctx)) } // waits for the node
	switch c {
	case nodeKill:
		return start, n.change(func() error { return n.KillNode(node) })
	case nodeStop:
		return start, n.change(func() error { return n.StopNode(node) })
	case nodeCut:
		return heal, n.CutNode(node)
	case nodeSlow:
		return heal, n.SlowNode(node, cluster.Slowness{Rate: "1mbit"})
	case nodeDrain:
		uncordon := func(ctx context.Context) error {
			return retry(ctx, func() error { return n.UncordonNode(ctx, node) })
		}
		return uncordon, retry(ctx, func() error { return n.DrainNode(ctx, node) })
	default:
		return nil, fmt.Errorf("%s is not a fault of a real node", c)
	}
}

// waitForTaints waits until a node has no taint that deletes pods. Until then, a fault may end attempts of other lives.
func (n realNodes) waitForTaints(ctx context.Context, node string) error {
	deletesPods := func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }
	err := wait.PollUntilContextTimeout(ctx, pollInterval, apiTimeout, true, func(ctx context.Context) (bool, error) {
		got, err := n.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && !slices.ContainsFunc(got.Spec.Taints, deletesPods), nil // the API server may not answer yet
	})
	if err != nil {
		return fmt.Errorf("waiting for the taints of node %s to be removed: %w", node, err)
	}
	return nil
}

// hit makes the program of a pod exit or hang. If that fails because the pod is gone, the error is that of the
// API server.
func (n realNodes) hit(ctx context.Context, _ life, pod corev1.Pod, i incident) error {
	command := fmt.Sprintf("echo %d > /tmp/exit", i.ExitCode)
	if i.Cause == programHang {
		command = "touch /tmp/hang"
	}
	_, execErr := n.Kubectl(ctx, "--namespace", pod.Namespace, "exec", pod.Name, "--", "sh", "-c", command)
	if execErr == nil {
		return nil
	}
	now, err := n.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now.UID != pod.UID || now.DeletionTimestamp != nil || !isLive(*now) ||
		strings.Contains(execErr.Error(), "container not found") {
		return apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	return execErr
}

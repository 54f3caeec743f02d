package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// connectingProgram listens on rank 0. All other pods connect to the address in their environment or argument until the
// test ends, and print each change of the result.
const connectingProgram = `
import os, socket, sys, time
port = int(os.environ.get("MASTER_PORT", "0"))
if os.environ.get("RANK") == "0":
    server = socket.create_server(("", port))
    while True:
        server.accept()[0].close()
address = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else (os.environ["MASTER_ADDR"], port)
last = None
while True:
    try:
        socket.create_connection(address, timeout=2).close()
        result = "connected"
    except OSError as error:
        result = "blocked: %s" % error
    if result != last:
        print(result, flush=True)
    last = result
    time.sleep(0.5)
`

// TestNetworkPolicies enforces NetworkPolicies, and checks what those of the documentation and of the chart permit and
// what they block.
func TestNetworkPolicies(t *testing.T) {
	skipUnlessFullRun(t)
	s := requireCluster(t)
	if err := s.EnforceNetworkPolicies(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("only the gang reaches its ranks in a namespace that denies everything", s.testGangPolicy)
	t.Run("the pods of Rollcall work in a namespace that denies everything", s.testChartPolicies)
}

func (s *testCluster) testGangPolicy(t *testing.T) {
	ns := s.createNamespace(t)
	s.denyConnections(t, ns)
	s.createProgram(t, ns, "connect.py", connectingProgram)
	s.createJob(t, ns, "train", 2, nil, s.newPodSpec("python3", "connect.py"))
	s.waitForLogText(t, ns, "train", "blocked", 1) // the ranks do not even find each other

	policy := readNetworkPolicy(t)
	s.createNetworkPolicy(t, ns, policy)
	s.waitForLogText(t, ns, "train", "connected", 1)

	rankZero := s.listPods(t, ns, "train")[0]
	port := readMasterPort(t, rankZero)
	s.createStranger(t, ns, rankZero.Status.PodIP, port)
	s.permitEgress(t, ns)
	s.waitForPodLog(t, ns, "stranger", "blocked")

	err := s.client.NetworkingV1().NetworkPolicies(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.waitForPodLog(t, ns, "stranger", "connected") // only the policy has blocked it
}

func (s *testCluster) testChartPolicies(t *testing.T) {
	nodes, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	apiServer := fmt.Sprintf("{%s/32}", nodes.Items[0].Status.Addresses[0].Address)
	s.replaceRelease(t, "--set=networkPolicy.enabled=true",
		"--set=networkPolicy.apiServerCIDRs="+apiServer, "--set=networkPolicy.egressCIDRs="+apiServer)
	s.denyConnections(t, installation.Namespace)

	ns := s.createNamespace(t)
	s.waitForAdmission(t, ns)
	s.createProgram(t, ns, "connect.py", connectingProgram)
	webhooks, err := s.listManagerPods(t.Context(), "webhook")
	if err != nil || len(webhooks) == 0 {
		t.Fatalf("%d pods of the webhook: %v", len(webhooks), err)
	}
	s.createStranger(t, ns, webhooks[0].Status.PodIP, "9443")
	s.waitForPodLog(t, ns, "stranger", "blocked")
	s.createJob(t, ns, "train", 2, nil, s.newPodSpec("python3", "-c", "pass"))
	s.waitForTerminalPhase(t, ns, "train", lifecycle.Succeeded) // the controller reaches the API server
}

// readNetworkPolicy returns the NetworkPolicy for a gang of the reference.
func readNetworkPolicy(t *testing.T) *networkingv1.NetworkPolicy {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repositoryRoot, "docs", "reference", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\napiVersion: networking.k8s.io/v1\n")
	if !found {
		t.Fatal("the page has no NetworkPolicy")
	}
	text, _, _ = strings.Cut(text, "```")
	policy := &networkingv1.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte("apiVersion: networking.k8s.io/v1\n"+text), policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

// denyConnections forbids all connections of the pods of a namespace that no other policy permits.
func (s *testCluster) denyConnections(t *testing.T, ns string) {
	t.Helper()
	s.createNetworkPolicy(t, ns, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny-all"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	})
}

// permitEgress permits the stranger all connections that ingress policies do not block.
func (s *testCluster) permitEgress(t *testing.T, ns string) {
	t.Helper()
	s.createNetworkPolicy(t, ns, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "permit-egress"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "stranger"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
		},
	})
}

// createNetworkPolicy creates a policy, and deletes it at the end of the test.
func (s *testCluster) createNetworkPolicy(t *testing.T, ns string, policy *networkingv1.NetworkPolicy) {
	t.Helper()
	policies := s.client.NetworkingV1().NetworkPolicies(ns)
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := policies.DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "metadata.name=" + policy.Name})
		if err != nil {
			t.Errorf("deleting the NetworkPolicy %s: %v", policy.Name, err)
		}
	})
}

// createStranger creates a pod that is in no gang and connects to an address.
func (s *testCluster) createStranger(t *testing.T, ns, address, port string) {
	t.Helper()
	_, err := s.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger", Labels: map[string]string{"app": "stranger"}},
		Spec:       s.newPodSpec("python3", "connect.py", address, port),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForPodLog waits until the log of a pod has a text.
func (s *testCluster) waitForPodLog(t *testing.T, ns, name, text string) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%q in the log of the pod %s", text, name), func(ctx context.Context) error {
		log, err := s.client.CoreV1().Pods(ns).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return err
		}
		if !strings.Contains(string(log), text) {
			return fmt.Errorf("it has %q", log)
		}
		return nil
	})
}

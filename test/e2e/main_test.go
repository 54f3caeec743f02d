package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// repositoryRoot is the path of the repository.
var repositoryRoot = filepath.Join("..", "..")

// sharedCluster is the cluster of all tests. It is nil if real nodes are not possible.
var sharedCluster *testCluster

// skipReason is the reason why real nodes are not possible, or nil.
var skipReason error

// testCluster is a cluster with Rollcall installed.
type testCluster struct {
	*cluster.Cluster
	client               kubernetes.Interface
	trainingImage        string   // the image with PyTorch
	objectsBeforeInstall []string // the cluster-scoped objects before the installation
}

func TestMain(m *testing.M) {
	if skipReason = cluster.CanRunReal(); skipReason != nil {
		os.Exit(m.Run()) // each test is skipped with skipReason
	}
	if flag.Parse(); flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // the list needs no cluster
	}
	manager, err := installation.NewManagerImage()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := cluster.Options{Nodes: cluster.Real, Images: []cluster.ImageSource{manager, cluster.Torch}}
	os.Exit(cluster.Main(m, options, func(c *cluster.Cluster) {
		installErr = installRollcall(context.Background(), c)
	}))
}

// installErr fails every test. A failed installation must not skip them.
var installErr error

func installRollcall(ctx context.Context, c *cluster.Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	training, err := cluster.Torch.Reference()
	if err != nil {
		return err
	}
	sharedCluster = &testCluster{Cluster: c, client: client, trainingImage: training}
	if sharedCluster.objectsBeforeInstall, err = sharedCluster.listClusterScopedObjects(ctx); err != nil {
		return err
	}
	return sharedCluster.installChart(ctx)
}

// installChart installs the chart and returns when the webhook is ready. args are further arguments of
// helm.
func (s *testCluster) installChart(ctx context.Context, args ...string) error {
	// A slow machine must not fail the tests.
	args = append([]string{"--set", "webhook.timeoutSeconds=30"}, args...)
	if cluster.UsesNewContainerd() {
		args = append([]string{"--set", "agent.delivery=image"}, args...)
	}
	return installation.InstallChart(ctx, s.Cluster, args...)
}

// uninstallChart uninstalls the chart. At the end of the test, it uninstalls what the test has installed and
// installs the chart as before.
func (s *testCluster) uninstallChart(t *testing.T) {
	t.Helper()
	args := []string{
		"uninstall", installation.Release, "--namespace", installation.Namespace, "--wait", "--ignore-not-found",
	}
	if _, err := s.Helm(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Helm(context.Background(), args...); err != nil {
			t.Errorf("uninstalling the release: %v", err)
		}
		if err := s.installChart(context.Background()); err != nil {
			t.Errorf("installing again: %v", err)
		}
	})
}

// requireCluster returns the cluster, or skips or fails the test.
func requireCluster(t *testing.T) *testCluster {
	t.Helper()
	if skipReason != nil {
		t.Skipf("real nodes are not possible: %v", skipReason)
	}
	if installErr != nil {
		t.Fatal(installErr)
	}
	return sharedCluster
}

// skipUnlessFullRun skips a test unless all tests were requested. make e2e must pass before each
// change, make e2e-all before a release.
func skipUnlessFullRun(t *testing.T) {
	t.Helper()
	if os.Getenv("ROLLCALL_E2E") != "all" {
		t.Skip("run make e2e-all to include this test")
	}
}

// createNamespace creates a namespace for a test and deletes it afterward.
func (s *testCluster) createNamespace(t *testing.T) string {
	t.Helper()
	ns, err := s.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.dumpState(t, ns.Name)
		}
		if err := s.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return ns.Name
}

// dumpState logs the state of a failed test before its namespace is deleted.
func (s *testCluster) dumpState(t *testing.T, ns string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "all,events", "-o", "wide"},
		{"logs", "--selector", "rollcall.training/gang", "--prefix", "--tail=20"},
		{"logs", "--namespace=" + installation.Namespace, "deployment/" + installation.WebhookName, "--tail=30"},
		{"logs", "--namespace=" + installation.Namespace, "deployment/" + installation.ControllerName, "--tail=30"},
	} {
		out, err := s.Kubectl(context.Background(), append([]string{"--namespace", ns}, args...)...)
		t.Logf("kubectl %s:\n%s%v", strings.Join(args, " "), out, err)
	}
}

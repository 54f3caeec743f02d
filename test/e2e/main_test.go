package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/cluster"
)

const (
	release          = "rollcall"
	releaseNamespace = "rollcall-system"
	managerImage     = "rollcall.training/manager:e2e"

	// patience bounds each wait: far more than anything takes that works.
	patience = 3 * time.Minute
)

// root is the repository.
var root = filepath.Join("..", "..")

// ground is what all tests stand on; nil when there can be no real node.
var ground *site

// whyNot says why there is none.
var whyNot error

// site is a cluster with Rollcall installed.
type site struct {
	*cluster.Cluster
	client   kubernetes.Interface
	training string   // the image with PyTorch
	before   []string // what there was outside of namespaces before the installation
}

func TestMain(m *testing.M) {
	if whyNot = cluster.CanRunReal(); whyNot != nil {
		os.Exit(m.Run()) // each test says why it is skipped
	}
	manager := cluster.Binary{Ref: managerImage, Dir: root, Package: "./cmd/manager"}
	options := cluster.Options{Nodes: cluster.Real, Images: []cluster.ImageSource{manager, cluster.Torch}}
	os.Exit(cluster.Main(m, options, func(c *cluster.Cluster) {
		installErr = install(context.Background(), c)
	}))
}

// installErr fails every test: a chart that does not install is no reason to skip.
var installErr error

func install(ctx context.Context, c *cluster.Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	training, err := cluster.Torch.Reference()
	if err != nil {
		return err
	}
	ground = &site{Cluster: c, client: client, training: training}
	if ground.before, err = ground.clusterScoped(ctx); err != nil {
		return err
	}
	return ground.install(ctx)
}

// install installs the chart and returns when the webhook answers.
func (s *site) install(ctx context.Context) error {
	repository, tag, _ := strings.Cut(managerImage, ":")
	_, err := s.Helm(ctx, "install", release, filepath.Join(root, "charts", "rollcall"),
		"--namespace", releaseNamespace, "--create-namespace", "--wait", "--timeout", "3m",
		"--set-string", "image.repository="+repository, "--set-string", "image.tag="+tag,
		"--set", "webhook.timeoutSeconds=30") // a machine that stalls is no failure of Rollcall's
	if err != nil {
		pods, _ := s.Kubectl(ctx, "--namespace", releaseNamespace, "get", "pods,events")
		return fmt.Errorf("installing the chart: %w\n%s", err, pods)
	}
	return nil
}

// here returns the site, or skips or fails the test.
func here(t *testing.T) *site {
	t.Helper()
	if whyNot != nil {
		t.Skipf("no real node can be had: %v", whyNot)
	}
	if installErr != nil {
		t.Fatal(installErr)
	}
	return ground
}

// slow skips a test that was not asked for: make e2e is what has to pass before each
// change, make e2e-all before a release.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("ROLLCALL_E2E") != "all" {
		t.Skip("not asked for: make e2e-all runs it")
	}
}

// namespace makes one for a test, and takes it away afterwards.
func (s *site) namespace(t *testing.T) string {
	t.Helper()
	ns, err := s.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.show(t, ns.Name)
		}
		if err := s.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return ns.Name
}

// show tells what a failed test left, before it goes.
func (s *site) show(t *testing.T, ns string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "all,events", "-o", "wide"},
		{"logs", "--selector", "rollcall.training/gang", "--prefix", "--tail=20"},
		{"logs", "--namespace=" + releaseNamespace, "deployment/" + release, "--tail=30"},
	} {
		out, err := s.Kubectl(context.Background(), append([]string{"--namespace", ns}, args...)...)
		t.Logf("kubectl %s:\n%s%v", strings.Join(args, " "), out, err)
	}
}

// eventually waits until check gives nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("not looked at")
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last: %v", what, err, last)
	}
}

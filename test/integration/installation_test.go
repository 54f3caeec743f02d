package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
)

// patience bounds each wait: far more than anything takes that works.
const patience = time.Minute

// manager is Rollcall's own program, run beside a cluster without nodes. What the
// chart would install is applied from the chart, with the webhooks called by URL.
type manager struct {
	cluster                  *cluster.Cluster
	client                   kubernetes.Interface
	webhook, probes, metrics int

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// buildManager builds the manager once for all tests.
var buildManager = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rollcall-manager-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "manager")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/manager")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w: %s", err, out)
	}
	return path, nil
})

// newManager installs Rollcall and waits until it is ready.
func newManager(t *testing.T, c *cluster.Cluster) *manager {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{cluster: c, client: client, webhook: freePort(t), probes: freePort(t), metrics: freePort(t)}
	if m.log, err = os.Create(filepath.Join(c.LogDir(), "rollcall-manager.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.stop(t)
		if t.Failed() {
			text, _ := os.ReadFile(m.log.Name())
			t.Logf("the manager's log:\n%s", tail(text, 40))
		}
	})
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: releaseNamespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.applyConfigurations(t)
	m.start(t)
	return m
}

func tail(text []byte, lines int) []byte {
	all := bytes.Split(text, []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// applyConfigurations applies the chart's webhook configurations: their scope is
// what the tests are about, so it comes from nowhere else.
func (m *manager) applyConfigurations(t *testing.T) {
	t.Helper()
	r := render(t, m.cluster)
	url := func(c *admissionv1.WebhookClientConfig) {
		c.URL = ptr.To("https://" + net.JoinHostPort("localhost", strconv.Itoa(m.webhook)) + *c.Service.Path)
		c.Service = nil
	}
	mutating := one[*admissionv1.MutatingWebhookConfiguration](t, r)
	for i := range mutating.Webhooks {
		url(&mutating.Webhooks[i].ClientConfig)
	}
	validating := one[*admissionv1.ValidatingWebhookConfiguration](t, r)
	for i := range validating.Webhooks {
		url(&validating.Webhooks[i].ClientConfig)
	}
	api := m.client.AdmissionregistrationV1()
	if _, err := api.MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// start runs the manager and waits until it is ready.
func (m *manager) start(t *testing.T) {
	t.Helper()
	path, err := buildManager()
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	cmd := exec.Command(path,
		"--namespace="+releaseNamespace,
		"--webhook-port="+strconv.Itoa(m.webhook),
		"--health-probe-bind-address=127.0.0.1:"+strconv.Itoa(m.probes),
		"--metrics-bind-address=127.0.0.1:"+strconv.Itoa(m.metrics),
		"--shutdown-delay=0s",
		"--log-level=debug",
	)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.cluster.Kubeconfig())
	cmd.Stdout, cmd.Stderr = m.log, m.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		m.mu.Unlock()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.process, m.ended = cmd, ended
	m.mu.Unlock()
	eventually(t, "the manager to be ready", func(ctx context.Context) error {
		return get(ctx, m.probes, "/readyz", io.Discard)
	})
}

// stop ends the manager and waits for its end.
func (m *manager) stop(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return
	}
	if err := m.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stopping the manager: %v", err)
	}
	select {
	case <-m.ended:
	case <-time.After(patience):
		t.Error("the manager did not end after SIGTERM")
		_ = m.process.Process.Kill()
		<-m.ended
	}
	m.process = nil
}

func get(ctx context.Context, port int, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, strings.TrimSpace(string(body)))
	}
	_, err = to.Write(body)
	return err
}

// eventually waits until check gives nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last: %v", what, err, last)
	}
}

// namespace makes one for a test of its own.
func (m *manager) namespace(t *testing.T) string {
	t.Helper()
	ns, err := m.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

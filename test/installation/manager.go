package installation

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
)

// Patience bounds each wait: far more than anything takes that works.
const Patience = 3 * time.Minute

// tokenLife is how long the manager may ask: longer than any test. In a pod, the kubelet renews its token.
const tokenLife = 24 * time.Hour

// shownLines is how much of the manager's log a failed test shows.
const shownLines = 40

// Manager is Rollcall's own program, run beside a cluster.
type Manager struct {
	// Cluster is what it is installed in.
	Cluster *cluster.Cluster
	// Client has all rights there. It is the test's, not the manager's.
	Client kubernetes.Interface

	program, kubeconfig      string
	chart, flags             []string
	webhook, probes, metrics int
	log                      *os.File

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

// build builds the manager. All but the linking is in the go command's cache from the last time.
func build(t testing.TB, path string) {
	t.Helper()
	source, err := root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/manager")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the manager: %v: %s", err, out)
	}
}

// New installs Rollcall, starts its manager and waits until it is ready. The manager ends with the test; the end of
// its log is shown if the test fails. The flags come after our own, and so prevail over them.
func New(t testing.TB, c *cluster.Cluster, flags ...string) *Manager {
	t.Helper()
	return NewWithChart(t, c, nil, flags...)
}

// NewWithChart is New with arguments for helm, such as "--set", "replicas=2".
func NewWithChart(t testing.TB, c *cluster.Cluster, chart []string, flags ...string) *Manager {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	dir := t.TempDir()
	m := &Manager{
		Cluster: c, Client: client, chart: chart, flags: flags,
		program: filepath.Join(dir, "manager"), kubeconfig: filepath.Join(dir, "kubeconfig"),
		webhook: freePort(t), probes: freePort(t), metrics: freePort(t),
	}
	if m.log, err = os.Create(filepath.Join(c.LogDir(), "rollcall-manager.log")); err != nil {
		t.Fatalf("making the manager's log: %v", err)
	}
	t.Cleanup(func() {
		m.Stop(t)
		if t.Failed() {
			text, _ := os.ReadFile(m.log.Name())
			t.Logf("the manager's log:\n%s", tail(text, shownLines))
		}
		if err := m.log.Close(); err != nil {
			t.Errorf("closing the manager's log: %v", err)
		}
	})
	build(t, m.program)
	m.install(t)
	m.writeKubeconfig(t)
	m.Start(t)
	return m
}

// writeKubeconfig lets the manager be who it is in a pod of the chart's.
func (m *Manager) writeKubeconfig(t testing.TB) {
	t.Helper()
	token, err := m.Client.CoreV1().ServiceAccounts(Namespace).
		CreateToken(t.Context(), Release, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLife.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("getting a token for the manager: %v", err)
	}
	admin := m.Cluster.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters[Release] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[Release] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[Release] = &clientcmdapi.Context{Cluster: Release, AuthInfo: Release}
	config.CurrentContext = Release
	if err := clientcmd.WriteToFile(*config, m.kubeconfig); err != nil {
		t.Fatalf("writing the manager's kubeconfig: %v", err)
	}
}

// Start runs the manager after a Stop, and waits until it is ready.
func (m *Manager) Start(t testing.TB) {
	t.Helper()
	if err := m.run(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the manager to be ready", func(ctx context.Context) error {
		return get(ctx, m.probes, "/readyz", io.Discard)
	})
}

func (m *Manager) run() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd := exec.Command(m.program, slices.Concat([]string{
		"--namespace=" + Namespace,
		"--webhook-port=" + strconv.Itoa(m.webhook),
		"--health-probe-bind-address=" + local(m.probes),
		"--metrics-bind-address=" + local(m.metrics),
		"--shutdown-delay=0s",
		"--log-level=debug",
	}, m.flags)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.process, m.ended = cmd, ended
	return nil
}

// Stop ends the manager and waits for its end. It does nothing when none runs.
func (m *Manager) Stop(t testing.TB) {
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
	case <-time.After(Patience):
		t.Error("the manager did not end after SIGTERM")
		_ = m.process.Process.Kill()
		<-m.ended
	}
	m.process = nil
}

// Metrics writes the manager's metrics, in Prometheus' text format, to w.
func (m *Manager) Metrics(ctx context.Context, w io.Writer) error {
	return get(ctx, m.metrics, "/metrics", w)
}

// Eventually waits until check gives nil, and ends the test if that takes longer than Patience.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v; last: %v", what, err, last)
	}
}

func get(ctx context.Context, port int, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(port)+path, nil)
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

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", local(0))
	if err != nil {
		t.Fatalf("finding a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func tail(text []byte, lines int) []byte {
	all := bytes.Split(text, []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

package installation

import (
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// loopback is the address of all ports of the manager.
const loopback = "127.0.0.1"

// tokenLifetime is the lifetime of the manager's token. It is longer than any test. In a pod, the
// kubelet renews the token.
const tokenLifetime = 24 * time.Hour

// shownLogLines is the number of lines of the manager's log that a failed test shows.
const shownLogLines = 40

// Manager is Rollcall's own program, installed in a cluster.
type Manager struct {
	// Cluster is the cluster of the installation.
	Cluster *cluster.Cluster
	// Client is the client of the test. It has all permissions in the cluster. The manager does not
	// use it.
	Client kubernetes.Interface

	binaryPath, kubeconfigPath          string
	chartArgs, managerFlags             []string
	namespaceSelectorFlag               string
	webhookPort, probePort, metricsPort int
	logFile                             *os.File

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// buildManager builds the manager. Only linking takes time if the go command has cached the
// packages.
func buildManager(t testing.TB, path string) {
	t.Helper()
	source, err := findRepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/manager")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the manager: %v: %s", err, out)
	}
}

// New installs Rollcall, starts its manager and waits until it is ready. flags follow the default
// flags of the manager and override them. The manager stops at the end of the test. If the test
// fails, it shows the end of the manager's log.
func New(t testing.TB, c *cluster.Cluster, flags ...string) *Manager {
	t.Helper()
	return NewWithChart(t, c, nil, flags...)
}

// NewWithChart is like New with further arguments for helm, for example "--set", "replicas=2".
func NewWithChart(t testing.TB, c *cluster.Cluster, chart []string, flags ...string) *Manager {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	m := &Manager{
		Cluster:      c,
		Client:       client,
		chartArgs:    chart,
		managerFlags: flags,
		binaryPath:   filepath.Join(t.TempDir(), "manager"),
	}
	m.prepareProcess(t, "rollcall-manager.log")
	buildManager(t, m.binaryPath)
	m.installChart(t)
	m.writeKubeconfig(t)
	m.Start(t)
	return m
}

// prepareProcess chooses the ports, the kubeconfig file and the log file of the process. It stops the
// process at the end of the test, and shows the end of the log if the test failed.
func (m *Manager) prepareProcess(t testing.TB, logName string) {
	t.Helper()
	m.kubeconfigPath = filepath.Join(t.TempDir(), "kubeconfig")
	ports, err := cluster.FindFreePorts(loopback, 3)
	if err != nil {
		t.Fatal(err)
	}
	m.webhookPort, m.probePort, m.metricsPort = ports[0], ports[1], ports[2]
	if m.logFile, err = os.Create(filepath.Join(m.Cluster.LogDir(), logName)); err != nil {
		t.Fatalf("creating the log of the manager: %v", err)
	}
	t.Cleanup(func() {
		m.Stop(t)
		if t.Failed() {
			t.Logf("end of %s:\n%s", logName, cluster.ReadLastLines(m.logFile.Name(), shownLogLines))
		}
		if err := m.logFile.Close(); err != nil {
			t.Errorf("closing the log of the manager: %v", err)
		}
	})
}

// writeKubeconfig writes a kubeconfig with the ServiceAccount of the chart.
func (m *Manager) writeKubeconfig(t testing.TB) {
	t.Helper()
	token, err := m.Client.CoreV1().ServiceAccounts(Namespace).
		CreateToken(t.Context(), Release, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
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
	if err := clientcmd.WriteToFile(*config, m.kubeconfigPath); err != nil {
		t.Fatalf("writing the manager's kubeconfig: %v", err)
	}
}

// Start starts the manager after Stop or Kill, and waits until it is ready.
func (m *Manager) Start(t testing.TB) {
	t.Helper()
	if err := m.startProcess(); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the manager to be ready", func(ctx context.Context) error {
		return fetchHTTP(ctx, m.probePort, "/readyz", io.Discard)
	})
}

func (m *Manager) startProcess() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	cmd := exec.Command(m.binaryPath, slices.Concat([]string{
		"--namespace=" + Namespace,
		"--webhook-port=" + strconv.Itoa(m.webhookPort),
		"--health-probe-bind-address=" + formatLoopbackAddress(m.probePort),
		"--metrics-bind-address=" + formatLoopbackAddress(m.metricsPort),
		"--shutdown-delay=0s",
		"--log-level=debug",
		m.namespaceSelectorFlag,
	}, m.managerFlags)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfigPath)
	cmd.Stdout, cmd.Stderr = m.logFile, m.logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	m.process, m.exited = cmd, ended
	return nil
}

// Stop terminates the manager and waits until it has exited. It does nothing if the manager is not
// running.
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
	case <-m.exited:
	case <-time.After(wait.Timeout):
		t.Error("the manager did not exit after SIGTERM")
		_ = m.process.Process.Kill()
		<-m.exited
	}
	m.process = nil
}

// WriteMetrics writes the metrics of the manager to w, in the text format of Prometheus.
func (m *Manager) WriteMetrics(ctx context.Context, w io.Writer) error {
	return fetchHTTP(ctx, m.metricsPort, "/metrics", w)
}

func fetchHTTP(ctx context.Context, port int, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+formatLoopbackAddress(port)+path, nil)
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

func formatLoopbackAddress(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"rollcall.training/test/cluster"
	"rollcall.training/test/wait"
)

// loopback is the address of all ports of the processes.
const loopback = "127.0.0.1"

// tokenLifetime is the lifetime of the token of a process. It is longer than any test. In a pod, the
// kubelet renews the token.
const tokenLifetime = 24 * time.Hour

// shownLogLines is the number of lines of a log that a failed test shows.
const shownLogLines = 40

// Process is the webhook or the controller. Its methods except Kill must be called from the goroutine of
// the test.
type Process struct {
	manager *Manager
	account string
	// args are the arguments of the Deployment, flags those that override them.
	args, flags                         []string
	memoryLimit                         int64 // of the container, in bytes; 0 for no limit
	kubeconfigPath                      string
	webhookPort, probePort, metricsPort int
	logFile                             *os.File

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// newProcess chooses the ports, the kubeconfig file and the log file of a process. It stops the process
// at the end of the test, and shows the end of the log if the test failed.
func (m *Manager) newProcess(t testing.TB, account, logName string) *Process {
	t.Helper()
	ports, err := cluster.FindFreePorts(loopback, 3)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{
		manager:        m,
		account:        account,
		kubeconfigPath: filepath.Join(t.TempDir(), "kubeconfig"),
		webhookPort:    ports[0], probePort: ports[1], metricsPort: ports[2],
	}
	if p.logFile, err = os.Create(filepath.Join(m.Cluster.LogDir(), logName)); err != nil {
		t.Fatalf("creating the log %s: %v", logName, err)
	}
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("end of %s:\n%s", logName, cluster.ReadLastLines(p.logFile.Name(), shownLogLines))
		}
		if err := p.logFile.Close(); err != nil {
			t.Errorf("closing the log %s: %v", logName, err)
		}
	})
	return p
}

// writeKubeconfig writes a kubeconfig with the ServiceAccount of the chart.
func (p *Process) writeKubeconfig(t testing.TB) {
	t.Helper()
	token, err := p.manager.Client.CoreV1().ServiceAccounts(Namespace).
		CreateToken(t.Context(), p.account, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("getting a token for %s: %v", p.account, err)
	}
	admin := p.manager.Cluster.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters[Release] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[Release] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[Release] = &clientcmdapi.Context{Cluster: Release, AuthInfo: Release}
	config.CurrentContext = Release
	if err := clientcmd.WriteToFile(*config, p.kubeconfigPath); err != nil {
		t.Fatalf("writing the kubeconfig of %s: %v", p.account, err)
	}
}

// UseAPIServer makes the process use another address of the API server after its next start, for
// example the address of a proxy. certificate is the CA of that address in PEM.
func (p *Process) UseAPIServer(t testing.TB, server string, certificate []byte) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.kubeconfigPath)
	if err != nil {
		t.Fatalf("reading the kubeconfig of %s: %v", p.account, err)
	}
	config.Clusters[Release].Server = server
	config.Clusters[Release].CertificateAuthorityData = certificate
	if err := clientcmd.WriteToFile(*config, p.kubeconfigPath); err != nil {
		t.Fatalf("writing the kubeconfig of %s: %v", p.account, err)
	}
}

// Start starts the process after Stop, Kill or a crash, and waits until it is ready.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.Launch(t)
	p.WaitUntilReady(t)
}

// Launch starts the process and does not wait.
func (p *Process) Launch(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(p.manager.binaryPath, slices.Concat(p.args, []string{
		"--namespace=" + Namespace,
		"--health-probe-bind-address=" + formatLoopbackAddress(p.probePort),
		"--metrics-bind-address=" + formatLoopbackAddress(p.metricsPort),
		"--log-level=debug",
	}, p.flags)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfigPath)
	if p.memoryLimit > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", p.memoryLimit)) // as the chart does
	}
	cmd.Stdout, cmd.Stderr = p.logFile, p.logFile
	// Linux divides the CPUs by session (sched(7), autogroup), as a node divides them by pod.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", p.account, err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.process, p.exited = cmd, ended
}

// WaitUntilReady waits until the readiness probe of the process succeeds.
func (p *Process) WaitUntilReady(t testing.TB) {
	t.Helper()
	wait.For(t, p.account+" to be ready", func(ctx context.Context) error {
		return fetchHTTP(ctx, p.probePort, "/readyz", io.Discard)
	})
}

// Exited returns a channel that is closed when the process has exited. The process must have been started.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Stop terminates the process with SIGTERM and waits until it has exited. It does nothing if the process
// is not running.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return
	}
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stopping %s: %v", p.account, err)
	}
	select {
	case <-p.exited:
	case <-time.After(wait.Timeout):
		t.Errorf("%s did not exit after SIGTERM", p.account)
		_ = p.process.Process.Kill()
		<-p.exited
	}
	p.process = nil
}

// Kill terminates the process with SIGKILL, like a crash or the loss of its node. It does nothing if the
// process is not running. Kill is safe to call from any goroutine.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return nil
	}
	if err := p.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	p.process = nil
	return nil
}

// PID returns the ID of the process; 0 if it is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.Process.Pid
}

// MemoryLimit returns the limit of the container of the process in bytes; 0 if there is none.
func (p *Process) MemoryLimit() int64 { return p.memoryLimit }

// CheckReadiness returns the error of one check of the readiness probe.
func (p *Process) CheckReadiness(ctx context.Context, check string) error {
	return fetchHTTP(ctx, p.probePort, "/readyz/"+check, io.Discard)
}

// WebhookAddress returns the address on which the process serves webhooks.
func (p *Process) WebhookAddress() string { return formatLoopbackAddress(p.webhookPort) }

// MetricsURL returns the address of the metrics of the process, with the scheme of the chart.
func (p *Process) MetricsURL() string {
	scheme := "http"
	if slices.Contains(p.args, "--metrics-secure") {
		scheme = "https"
	}
	return scheme + "://" + formatLoopbackAddress(p.metricsPort) + "/metrics"
}

// WriteMetrics writes the metrics of the process to w, in the text format of Prometheus.
func (p *Process) WriteMetrics(ctx context.Context, w io.Writer) error {
	return fetchHTTP(ctx, p.metricsPort, "/metrics", w)
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

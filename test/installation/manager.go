package installation

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"k8s.io/client-go/kubernetes"

	"rollcall.training/test/cluster"
)

// Manager is Rollcall's own program, installed in a cluster. One process serves the webhooks, and
// another one reconciles gangs.
type Manager struct {
	// Cluster is the cluster of the installation.
	Cluster *cluster.Cluster
	// Client is the client of the test. It has all permissions in the cluster. The processes do not
	// use it.
	Client kubernetes.Interface
	// Webhook and Controller are the two processes.
	Webhook, Controller *Process

	binaryPath string
	chartArgs  []string
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

// New installs Rollcall, starts both processes and waits until they are ready. flags follow the flags of
// the chart for both processes and override them. There is no leader election, because a controller
// after Kill would have to wait for the Lease. The processes stop at the end of the test. If the test
// fails, it shows the end of their logs.
func New(t testing.TB, c *cluster.Cluster, flags ...string) *Manager {
	t.Helper()
	return NewWithChart(t, c, nil, flags...)
}

// NewWithChart is like New with further arguments for helm, for example "--set", "webhook.port=10250".
func NewWithChart(t testing.TB, c *cluster.Cluster, chart []string, flags ...string) *Manager {
	t.Helper()
	return install(t, c, chart, flags, append([]string{"--leader-elect=false"}, flags...))
}

// NewWithLeaderElection is like New with the leader election of the chart, and with further arguments for
// helm.
func NewWithLeaderElection(t testing.TB, c *cluster.Cluster, chart ...string) *Manager {
	t.Helper()
	return install(t, c, chart, nil, nil)
}

func install(t testing.TB, c *cluster.Cluster, chart, webhookFlags, controllerFlags []string) *Manager {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	m := &Manager{
		Cluster:    c,
		Client:     client,
		chartArgs:  chart,
		binaryPath: filepath.Join(t.TempDir(), "manager"),
	}
	m.Webhook = m.newProcess(t, WebhookName, "rollcall-webhook.log")
	m.Webhook.flags = append([]string{
		"--port=" + strconv.Itoa(m.Webhook.webhookPort), "--shutdown-delay=0s",
	}, webhookFlags...)
	m.Controller = m.newProcess(t, ControllerName, "rollcall-controller.log")
	m.Controller.flags = controllerFlags
	buildManager(t, m.binaryPath)
	m.installChart(t)
	m.Webhook.writeKubeconfig(t)
	m.Controller.writeKubeconfig(t)
	m.Start(t)
	return m
}

// NewController returns a second controller of the same installation, with its own ports and log. The
// caller must start it.
func (m *Manager) NewController(t testing.TB) *Process {
	t.Helper()
	p := m.newProcess(t, ControllerName, "rollcall-second-controller.log")
	p.args, p.flags = m.Controller.args, m.Controller.flags
	p.writeKubeconfig(t)
	return p
}

// Start starts both processes after Stop or Kill, and waits until they are ready.
func (m *Manager) Start(t testing.TB) {
	t.Helper()
	m.Webhook.Launch(t)
	m.Controller.Launch(t)
	m.Webhook.WaitUntilReady(t)
	m.Controller.WaitUntilReady(t)
}

// Stop terminates both processes and waits until they have exited. It ignores a process that is not
// running.
func (m *Manager) Stop(t testing.TB) {
	t.Helper()
	m.Controller.Stop(t)
	m.Webhook.Stop(t)
}

// Kill terminates both processes with SIGKILL, like the loss of their node. It ignores a process that is
// not running.
func (m *Manager) Kill() error {
	return errors.Join(m.Controller.Kill(), m.Webhook.Kill())
}

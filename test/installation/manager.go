package installation

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	source       string // the folder with the chart and the program
	binaryPath   string
	chartArgs    []string
	webhookFlags []string
	applied      map[string]bool // the objects of the chart in the cluster
}

// builtManagers contains a function for each source folder, which builds the manager and returns its path.
var builtManagers sync.Map

// buildManager builds the manager in the source folder, once for all clusters of a test process. The go command does
// not link the program again if nothing has changed since an earlier process.
func (m *Manager) buildManager(t testing.TB) {
	t.Helper()
	build, _ := builtManagers.LoadOrStore(m.source, sync.OnceValues(func() (string, error) {
		path := filepath.Join(m.source, "bin", "manager")
		cmd := exec.Command("go", "build", "-o", path, "./cmd/manager")
		cmd.Dir = m.source
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	}))
	var err error
	if m.binaryPath, err = build.(func() (string, error))(); err != nil {
		t.Fatalf("building the manager: %v", err)
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
	return install(t, c, findSource(t), chart, flags, append([]string{"--leader-elect=false"}, flags...))
}

// NewWithCertificate is like [NewWithChart] for a chart with certificates.mode secret. The folder contains the
// files of the Secret, which the kubelet would mount.
func NewWithCertificate(t testing.TB, c *cluster.Cluster, folder string, chart []string) *Manager {
	t.Helper()
	return install(t, c, findSource(t), chart, []string{"--certificate-dir=" + folder}, []string{"--leader-elect=false"})
}

// NewWithClientCA is like [New] for a webhook that requires client certificates. The file contains their authorities.
func NewWithClientCA(t testing.TB, c *cluster.Cluster, file string) *Manager {
	t.Helper()
	return install(t, c, findSource(t), []string{"--set", "webhook.clientCASecretName=api-servers"},
		[]string{"--client-ca-file=" + file}, []string{"--leader-elect=false"})
}

// NewFromSource is like New with the chart and the program of another build, which are in a source folder.
// The only process of a build with one Deployment is Webhook.
func NewFromSource(t testing.TB, c *cluster.Cluster, source string) *Manager {
	t.Helper()
	return install(t, c, source, nil, nil, []string{"--leader-elect=false"})
}

// NewWithLeaderElection is like New with the leader election of the chart, and with further arguments for
// helm.
func NewWithLeaderElection(t testing.TB, c *cluster.Cluster, chart ...string) *Manager {
	t.Helper()
	return install(t, c, findSource(t), chart, nil, nil)
}

func findSource(t testing.TB) string {
	t.Helper()
	source, err := findRepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func install(t testing.TB, c *cluster.Cluster, source string, chart, webhookFlags, controllerFlags []string) *Manager {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatalf("creating a client: %v", err)
	}
	m := &Manager{
		Cluster:      c,
		Client:       client,
		source:       source,
		chartArgs:    chart,
		webhookFlags: webhookFlags,
	}
	m.Webhook = m.newProcess(t, WebhookName, "rollcall-webhook.log")
	m.Controller = m.newProcess(t, ControllerName, "rollcall-controller.log")
	m.Controller.flags = controllerFlags
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: Namespace},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("installing Rollcall: %v", err)
	}
	m.applyChart(t)
	m.startBuild(t)
	return m
}

// startBuild builds the program in the source folder and starts its processes.
func (m *Manager) startBuild(t testing.TB) {
	t.Helper()
	m.buildManager(t)
	for _, p := range m.processes() {
		p.writeKubeconfig(t)
	}
	m.Start(t)
}

// processes returns the processes of the build.
func (m *Manager) processes() []*Process {
	if len(m.Controller.args) == 0 {
		return []*Process{m.Webhook}
	}
	return []*Process{m.Webhook, m.Controller}
}

// UpgradeChart replaces the objects of the chart by those of another build, as "helm upgrade" does. The
// processes keep running, as the old pods do during a rollout. [Manager.UpgradeProcesses] must follow.
func (m *Manager) UpgradeChart(t testing.TB, source string) {
	t.Helper()
	m.source = source
	m.applyChart(t)
}

// UpgradeProcesses stops the processes and starts those of the build whose chart is installed.
func (m *Manager) UpgradeProcesses(t testing.TB) {
	t.Helper()
	m.Stop(t)
	m.startBuild(t)
}

// NewController returns a second controller of the same installation, with its own ports and log. The
// caller must start it.
func (m *Manager) NewController(t testing.TB) *Process {
	t.Helper()
	p := m.newProcess(t, ControllerName, "rollcall-second-controller.log")
	p.args, p.flags, p.account = m.Controller.args, m.Controller.flags, m.Controller.account
	p.memoryLimit = m.Controller.memoryLimit
	p.writeKubeconfig(t)
	return p
}

// Start starts both processes after Stop or Kill, and waits until they are ready.
func (m *Manager) Start(t testing.TB) {
	t.Helper()
	for _, p := range m.processes() {
		p.Launch(t)
	}
	for _, p := range m.processes() {
		p.WaitUntilReady(t)
	}
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

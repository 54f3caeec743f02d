package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
	"rollcall.training/test/wait"
)

// maxWrites is more than the writes of any gang in this test. A test that reaches it is in an
// endless loop.
const maxWrites = 60

// crashWritesEnv is the environment variable that makes the test crash the manager after every
// write. Without it, the test crashes the manager after some writes.
const crashWritesEnv = "ROLLCALL_TEST_CRASH_WRITES"

// crashInterval returns the number of writes between two crash points.
func crashInterval(t *testing.T) int {
	t.Helper()
	if os.Getenv(crashWritesEnv) == "all" {
		return 1
	}
	const some = 5
	t.Logf("crash after every %dth write only; set %s=all to crash after every write", some, crashWritesEnv)
	return some
}

// crashScenarios are the histories of gangs. A crash must not change their result.
var crashScenarios = map[string]func(*testing.T, *crashProxy, string){
	"Restart": runRestartScenario,
	"Failure": runFailureScenario,
}

// TestManagerCrash kills the controller right after a write, before the controller receives the response,
// and starts it again. It repeats this for each crash point. The result of the gang must be the
// same each time. Crashes between two writes need no test, because the controller has no other state
// to lose.
func TestManagerCrash(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.New(t, c)}
	p := newCrashProxy(t, m, m.Controller)
	for name, life := range crashScenarios {
		t.Run(name, func(t *testing.T) {
			by := crashInterval(t)
			for k := by; k < maxWrites; k += by {
				done := false
				t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
					p.scheduleCrash(k)
					life(t, p, m.createNamespace(t))
					done = !p.hasCrashed()
				})
				if t.Failed() {
					return
				}
				if done {
					t.Logf("killed after each of the writes up to %d, %d apart", k-by, by)
					return
				}
			}
			t.Errorf("more than %d writes", maxWrites)
		})
	}
}

// TestLeaderCrash kills the leader of two controllers right after one of its writes. The other one
// takes over when the lease expires. The result of the gang must be the same.
func TestLeaderCrash(t *testing.T) {
	c := startCluster(t, cluster.Options{Nodes: cluster.NoNodes})
	m := &manager{installation.NewWithLeaderElection(t, c)}
	for name, life := range crashScenarios {
		t.Run(name, func(t *testing.T) {
			points := []int{6} // the write that stops or ends the gang; the lease expires after 15 s
			if os.Getenv(crashWritesEnv) == "all" {
				points = nil
				for k := 1; k < maxWrites; k++ {
					points = append(points, k)
				}
			} else {
				t.Logf("crash after write %v only; set %s=all to crash after every write", points, crashWritesEnv)
			}
			for _, k := range points {
				done := false
				t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
					m.Controller.Stop(t) // this releases the lease
					p := newCrashProxy(t, m, m.NewController(t))
					p.hasStandby = true
					p.waitForLeadership(t)
					m.Controller.Start(t)
					p.scheduleCrash(k)
					life(t, p, m.createNamespace(t))
					if done = !p.hasCrashed(); !done {
						t.Logf("killed after %.100s", p.writes[k-1])
					}
				})
				if t.Failed() || done {
					return
				}
			}
		})
	}
}

// waitForLeadership waits until the controller behind the proxy is the leader.
func (p *crashProxy) waitForLeadership(t *testing.T) {
	t.Helper()
	wait.For(t, "the leader", func(ctx context.Context) error {
		lease, err := p.Client.CoordinationV1().Leases(installation.Namespace).Get(ctx, "rollcall", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = errors.New("there is no leader")
		}
		return err
	})
}

// crashProxy is a proxy between a controller and the API server that kills the controller after a
// given write.
type crashProxy struct {
	*manager
	controller *installation.Process
	proxy      *httputil.ReverseProxy

	mu sync.Mutex
	// crashAtWrite is the number of the write to crash after, or 0. writes lists the writes so far.
	crashAtWrite int
	writes       []string
	// disconnected is true while the proxy drops requests. crashed is true if the controller was
	// killed since the last call of scheduleCrash.
	disconnected, crashed bool
	killErr               error
	// hasStandby is true if another controller takes over. Then the killed one is not started
	// again.
	hasStandby bool
}

func newCrashProxy(t *testing.T, m *manager, controller *installation.Process) *crashProxy {
	t.Helper()
	config := m.Cluster.Config()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	p := &crashProxy{manager: m, controller: controller}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		FlushInterval: -1, // needed for watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s := httptest.NewTLSServer(p) // clients do not send tokens without TLS
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	controller.Stop(t)
	controller.UseAPIServer(t, s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	controller.Start(t)
	// Kill the controller before the proxy closes: the proxy would wait for its connections.
	t.Cleanup(func() { _ = controller.Kill() })
	return p
}

// ServeHTTP forwards a request. It drops the response of the write to crash after.
func (p *crashProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.isDisconnected() {
		panic(http.ErrAbortHandler)
	}
	if !isGangWrite(r) {
		p.proxy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.proxy.ServeHTTP(answer, r)
	if p.recordWrite(fmt.Sprintf("%s %s: %d: %s", r.Method, r.URL.Path, answer.Code, body)) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may be dead
}

// isGangWrite reports whether a request writes to a gang. It excludes Rollcall's own objects, and
// Events, which no program reads.
func isGangWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/team-") &&
		!strings.HasSuffix(r.URL.Path, "/events")
}

func (p *crashProxy) isDisconnected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disconnected
}

// recordWrite records a write, and kills the controller after write crashAtWrite. It reports whether
// it killed the controller.
func (p *crashProxy) recordWrite(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, what)
	if p.crashed || len(p.writes) != p.crashAtWrite {
		return p.disconnected
	}
	p.disconnected, p.crashed = true, true
	p.killErr = p.controller.Kill()
	return true
}

// scheduleCrash schedules a crash after the kth write from now on.
func (p *crashProxy) scheduleCrash(k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashAtWrite, p.crashed, p.writes = k, false, nil
}

func (p *crashProxy) hasCrashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

func (p *crashProxy) cancelCrash(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashAtWrite = 0
	if t.Failed() {
		t.Logf("the controller's writes:\n%s", strings.Join(p.writes, "\n"))
	}
}

// restartIfCrashed starts the controller again if it was killed.
func (p *crashProxy) restartIfCrashed(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	out, err := p.disconnected, p.killErr
	p.disconnected = out && p.hasStandby // requests of the killed controller are rejected
	p.mu.Unlock()
	if err != nil {
		t.Fatalf("killing the controller: %v", err)
	}
	if out && !p.hasStandby {
		p.controller.Start(t)
	}
}

// waitThroughCrash waits for check, and restarts the controller if it was killed.
func (p *crashProxy) waitThroughCrash(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	wait.For(t, what, func(ctx context.Context) error {
		p.restartIfCrashed(t)
		return check(ctx)
	})
}

// startLauncherGangThroughCrash creates a gang of launcher and workers and waits until it runs.
// The controller may be unavailable in between.
func (p *crashProxy) startLauncherGangThroughCrash(t *testing.T, ns string, restarts string) *testGang {
	t.Helper()
	t.Cleanup(func() { p.cancelCrash(t) })
	r := &testGang{manager: p.manager, t: t, ns: ns}
	p.runFakeKubelet(t, ns, nil)
	for _, w := range newLauncherAndWorkers(2) {
		w.Meta().Annotations[gang.AnnotationMaxRestarts] = restarts
		p.waitThroughCrash(t, "the creation of "+w.Meta().Name, func(ctx context.Context) (err error) {
			if w.Job != nil {
				_, err = p.Client.BatchV1().Jobs(ns).Create(ctx, w.Job, metav1.CreateOptions{})
				r.jobs = []string{w.Job.Name}
			} else {
				_, err = p.Client.AppsV1().StatefulSets(ns).Create(ctx, w.StatefulSet, metav1.CreateOptions{})
				r.statefulSets = []string{w.StatefulSet.Name}
			}
			return err
		})
	}
	p.waitThroughCrash(t, "Running", r.checkPhase(lifecycle.Running, 0))
	return r
}

// checkUnaffectedByCrash fails the test unless the gang has the state that it has without crashes,
// and stays in it.
func (p *crashProxy) checkUnaffectedByCrash(t *testing.T, r *testGang, children int) {
	t.Helper()
	all, err := r.getWorkloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := lifecycle.ReadStatus(all[0])
	for _, w := range all[1:] {
		if s := lifecycle.ReadStatus(w); s.Message != first.Message || s.Restarts != first.Restarts ||
			!s.LastTransitionTime.Equal(first.LastTransitionTime) {
			t.Errorf("%s has the status %+v, the first member %+v", w.Meta().Name, s, first)
		}
	}
	services, err := p.Client.CoreV1().Services(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := p.Client.CoreV1().Secrets(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(services.Items) + len(secrets.Items); n != children {
		t.Errorf("%d Services and Secrets, want %d", n, children)
	}
	for _, s := range services.Items {
		if len(s.OwnerReferences) != len(all) {
			t.Errorf("the Service %s has %d owners, want %d", s.Name, len(s.OwnerReferences), len(all))
		}
	}
	r.checkPhaseStable(time.Second)
}

// runRestartScenario runs a gang that restarts once.
func runRestartScenario(t *testing.T, p *crashProxy, ns string) {
	r := p.startLauncherGangThroughCrash(t, ns, "3")
	before := r.listActivePods()
	r.failContainer(r.getActivePod("worker-1"), 3)
	p.waitThroughCrash(t, "Running again", r.checkPhase(lifecycle.Running, 1))
	r.checkPodsReplaced(before, "1")
	p.checkUnaffectedByCrash(t, r, 2)
	p.succeedLauncher(t, []corev1.Pod{r.getActivePod("launcher-0")}, "reached=2\n")
	p.waitThroughCrash(t, "Succeeded", r.checkPhase(lifecycle.Succeeded, 1))
	p.waitThroughCrash(t, "the workers to stop", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err == nil && (all[1].StatefulSet.Status.Replicas != 0 || *all[1].StatefulSet.Spec.Replicas != 0) {
			err = errors.New("they still run")
		}
		return err
	})
	p.checkUnaffectedByCrash(t, r, 2)
}

// runFailureScenario runs a gang that fails permanently.
func runFailureScenario(t *testing.T, p *crashProxy, ns string) {
	r := p.startLauncherGangThroughCrash(t, ns, "0")
	r.failContainer(r.getActivePod("worker-1"), 3)
	p.waitThroughCrash(t, "Failed", r.checkPhase(lifecycle.Failed, 0))
	p.waitThroughCrash(t, "the members to end", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err == nil && (all[1].StatefulSet.Status.Replicas != 0 || all[0].Job.Status.Failed != 1) {
			err = fmt.Errorf("%d workers, launcher %+v", all[1].StatefulSet.Status.Replicas, all[0].Job.Status)
		}
		if c := lifecycle.ReadStatus(all[0]).FirstFailure; c == nil || c.Rank != 2 || c.ExitCode != 3 {
			t.Fatalf("the first failure is %+v", c)
		}
		return err
	})
	p.waitThroughCrash(t, "the condition", func(ctx context.Context) error {
		all, err := r.getWorkloads(ctx)
		if err == nil && !hasGangFailedCondition(all[0]) {
			err = fmt.Errorf("%+v", all[0].Job.Status.Conditions)
		}
		return err
	})
	p.checkUnaffectedByCrash(t, r, 2)
}

func hasGangFailedCondition(w gang.Workload) bool {
	for _, c := range w.Job.Status.Conditions {
		if c.Type == "GangFailed" && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

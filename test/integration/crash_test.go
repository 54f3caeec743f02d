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
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// mostWrites is more than the life of any gang here needs: a test that gets there goes in circles.
const mostWrites = 60

// everyWrite is the environment variable that has the manager killed after every write, rather than after some of them.
const everyWrite = "ROLLCALL_CRASH"

// step is how many writes there are from one that the manager is killed after to the next.
func step(t *testing.T) int {
	t.Helper()
	if os.Getenv(everyWrite) == "all" {
		return 1
	}
	const some = 5
	t.Logf("killed after each %dth write alone; %s=all has it killed after each one", some, everyWrite)
	return some
}

// lives are those of gangs, which a crash must not alter.
var lives = map[string]func(*testing.T, *plug, string){"Life": crashLife, "Failure": crashFailure}

// TestCrash kills the manager right after one of its writes, before it hears of it, and starts it again; and then after
// another one. What becomes of the gang must not tell. That is all there is to kill: between two writes, nothing moves
// that would be lost.
func TestCrash(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.None})
	m := &manager{installation.New(t, c)}
	p := newPlug(t, m)
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			by := step(t)
			for k := by; k < mostWrites; k += by {
				done := false
				t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
					p.arm(k)
					life(t, p, m.namespace(t))
					done = !p.pulled()
				})
				if t.Failed() {
					return
				}
				if done {
					t.Logf("killed after each of the writes up to %d, %d apart", k-by, by)
					return
				}
			}
			t.Errorf("more than %d writes", mostWrites)
		})
	}
}

// TestCrashOfLeader kills the leader of two managers right after one of its writes. The other one waits until the lease
// is over, and goes on; what becomes of the gang must not tell either.
func TestCrashOfLeader(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.None})
	other := &manager{installation.NewWithChart(t, c, []string{"--set", "replicas=2"}, "--leader-elect")}
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			points := []int{6} // the one by which the gang is stopped, or ended; the lease takes 15 s to be over
			if os.Getenv(everyWrite) == "all" {
				points = nil
				for k := 1; k < mostWrites; k++ {
					points = append(points, k)
				}
			} else {
				t.Logf("killed after write %v alone; %s=all has it killed after each one", points, everyWrite)
			}
			for _, k := range points {
				done := false
				t.Run(fmt.Sprintf("after write %d", k), func(t *testing.T) {
					other.Stop(t) // and so gives the lease away
					p := newPlug(t, &manager{other.Replica(t)})
					p.standby = true
					p.leads(t)
					other.Start(t)
					p.arm(k)
					life(t, p, other.namespace(t))
					if done = !p.pulled(); !done {
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

// leads waits until the manager behind the plug is the leader.
func (p *plug) leads(t *testing.T) {
	t.Helper()
	eventually(t, "the leader", func(ctx context.Context) error {
		lease, err := p.Client.CoordinationV1().Leases(installation.Namespace).Get(ctx, "rollcall", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = errors.New("nobody leads")
		}
		return err
	})
}

// plug is a proxy between the manager and the API server that can be pulled.
type plug struct {
	*manager
	proxy *httputil.ReverseProxy

	mu sync.Mutex
	// at is the number of the write after which it is pulled, 0 for never; writes are those so far.
	at     int
	writes []string
	// out is true while it is pulled; was is true when it was since it was armed.
	out, was bool
	err      error
	// standby is true when another manager goes on, and this one is not started again.
	standby bool
}

func newPlug(t *testing.T, m *manager) *plug {
	t.Helper()
	config := m.Cluster.Config()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	p := &plug{manager: m}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s := httptest.NewTLSServer(p) // clients keep their tokens to themselves without TLS
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	m.Stop(t)
	m.Through(t, s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	m.Start(t)
	// The proxy ends before the manager does, which would wait for it.
	t.Cleanup(func() { _ = m.Kill() })
	return p
}

// ServeHTTP lets a request pass; the answer to the last one never arrives.
func (p *plug) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.isOut() {
		panic(http.ErrAbortHandler)
	}
	if !counts(r) {
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
	if p.write(fmt.Sprintf("%s %s: %d: %s", r.Method, r.URL.Path, answer.Code, body)) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // to one that may be dead
}

// counts tells the writes to gangs from those about Rollcall itself, and from Events, which nobody reads again.
func counts(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/namespaces/team-") && !strings.HasSuffix(r.URL.Path, "/events")
}

func (p *plug) isOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// write notes a write, and kills the manager when it is the one. It reports whether it did.
func (p *plug) write(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, what)
	if p.was || len(p.writes) != p.at {
		return p.out
	}
	p.out, p.was = true, true
	p.err = p.Kill()
	return true
}

// arm has the manager killed after its kth write from now on.
func (p *plug) arm(k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.was, p.writes = k, false, nil
}

func (p *plug) pulled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.was
}

func (p *plug) disarm(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = 0
	if t.Failed() {
		t.Logf("the manager's writes:\n%s", strings.Join(p.writes, "\n"))
	}
}

// mend starts the manager again when it was killed.
func (p *plug) mend(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	out, err := p.out, p.err
	p.out = out && p.standby // what is left of it is refused
	p.mu.Unlock()
	if err != nil {
		t.Fatalf("killing the manager: %v", err)
	}
	if out && !p.standby {
		p.Start(t)
	}
}

// until waits for check, and for the manager when it was killed.
func (p *plug) until(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	eventually(t, what, func(ctx context.Context) error {
		p.mend(t)
		return check(ctx)
	})
}

// runs creates the gang of launcher and workers, though Rollcall may be down meanwhile, and waits until it runs.
func (p *plug) runs(t *testing.T, ns string, restarts string) *trainee {
	t.Helper()
	t.Cleanup(func() { p.disarm(t) })
	r := &trainee{manager: p.manager, t: t, ns: ns}
	p.node(t, ns, nil)
	for _, w := range launcherAndWorkers(2) {
		w.Meta().Annotations[gang.AnnotationMaxRestarts] = restarts
		p.until(t, "the creation of "+w.Meta().Name, func(ctx context.Context) (err error) {
			if w.Job != nil {
				_, err = p.Client.BatchV1().Jobs(ns).Create(ctx, w.Job, metav1.CreateOptions{})
				r.jobs = []string{w.Job.Name}
			} else {
				_, err = p.Client.AppsV1().StatefulSets(ns).Create(ctx, w.StatefulSet, metav1.CreateOptions{})
				r.sets = []string{w.StatefulSet.Name}
			}
			return err
		})
	}
	p.until(t, "Running", r.are(gang.Running, 0))
	return r
}

// same fails the test unless the gang is where every gang is that nobody interrupted, and stays there.
func (p *plug) same(t *testing.T, r *trainee, children int) {
	t.Helper()
	all, err := r.workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := gang.StatusOf(all[0])
	for _, w := range all[1:] {
		if s := gang.StatusOf(w); s.Message != first.Message || s.Attempt != first.Attempt || !s.Since.Equal(first.Since) {
			t.Errorf("%s says %+v, the first member %+v", w.Meta().Name, s, first)
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
	r.stays(time.Second)
}

// crashLife is the life of a gang that falls once.
func crashLife(t *testing.T, p *plug, ns string) {
	r := p.runs(t, ns, "3")
	before := r.alive()
	r.falls(r.pod("worker-1"), 3)
	p.until(t, "Running again", r.are(gang.Running, 1))
	r.fresh(before, "1")
	p.same(t, r, 2)
	p.endLauncher(t, []corev1.Pod{r.pod("launcher-0")}, "reached=2\n")
	p.until(t, "Succeeded", r.are(gang.Succeeded, 1))
	p.until(t, "the workers' rest", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err == nil && (all[1].StatefulSet.Status.Replicas != 0 || *all[1].StatefulSet.Spec.Replicas != 0) {
			err = errors.New("they run")
		}
		return err
	})
	p.same(t, r, 2)
}

// crashFailure is that of one that falls for good.
func crashFailure(t *testing.T, p *plug, ns string) {
	r := p.runs(t, ns, "0")
	r.falls(r.pod("worker-1"), 3)
	p.until(t, "Failed", r.are(gang.Failed, 0))
	p.until(t, "the end of the members", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err == nil && (all[1].StatefulSet.Status.Replicas != 0 || all[0].Job.Status.Failed != 1) {
			err = fmt.Errorf("%d workers, launcher %+v", all[1].StatefulSet.Status.Replicas, all[0].Job.Status)
		}
		if c := gang.StatusOf(all[0]).Cause; c == nil || c.Rank != 2 || c.ExitCode != 3 {
			t.Fatalf("the cause is %+v", c)
		}
		return err
	})
	p.until(t, "the condition", func(ctx context.Context) error {
		all, err := r.workloads(ctx)
		if err == nil && !settledJob(all[0]) {
			err = fmt.Errorf("%+v", all[0].Job.Status.Conditions)
		}
		return err
	})
	p.same(t, r, 2)
}

func settledJob(w gang.Workload) bool {
	for _, c := range w.Job.Status.Conditions {
		if c.Type == "GangFailed" && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// simulatedLives and realLives are the numbers of lives at the same time. A real node accepts 110 pods.
	simulatedLives, realLives = 20, 10
	// minCalm and maxCalm bound the time between two disruptions.
	minCalm, maxCalm = 10 * time.Second, 40 * time.Second
	// superviseInterval is the time between two checks of the control plane.
	superviseInterval = 2 * time.Second
	// maxDowntime bounds how long a process that was killed is away.
	maxDowntime = 10 * time.Second
)

// schedule is what the environment requests.
type schedule struct {
	seed    uint64
	numbers []int // of the lives
}

// readSchedule reads the schedule from SEED, LIFE and the variable with the number of lives. It skips
// the test if none of them is set.
func readSchedule(t *testing.T, livesEnv string) schedule {
	t.Helper()
	read := func(name string, otherwise uint64) uint64 {
		text, ok := os.LookupEnv(name)
		if !ok || text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("reading %s: %v", name, err)
		}
		return n
	}
	if os.Getenv("SEED") == "" && os.Getenv("LIFE") == "" && os.Getenv(livesEnv) == "" {
		t.Skipf("run make chaos, or set %s or SEED", livesEnv)
	}
	const defaultLives = 20
	s := schedule{seed: read("SEED", uint64(time.Now().UnixNano()))}
	for number := range int(read(livesEnv, defaultLives)) {
		s.numbers = append(s.numbers, number)
	}
	if os.Getenv("LIFE") != "" {
		s.numbers = []int{int(read("LIFE", 0))}
	}
	return s
}

// TestChaos runs lives on simulated nodes while processes of Rollcall are killed and the API server restarts.
func TestChaos(t *testing.T) {
	s := readSchedule(t, "LIVES")
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok})
	m := installation.New(t, c)
	recorder, wait := startRecorder(t.Context(), m.Client)
	t.Cleanup(wait)
	r := &runner{
		client: m.Client, recorder: recorder, nodes: simulatedNodes{m.Client}, faults: simulatedFaults,
		parallel: simulatedLives,
	}
	runLives(t, c, r, s, func(random *rand.Rand) string {
		return disrupt(t, c, m, random)
	}).print(t)
}

// disrupt kills a process of Rollcall or restarts the API server, and returns what it did.
func disrupt(t *testing.T, c *cluster.Cluster, m *installation.Manager, random *rand.Rand) string {
	t.Helper()
	what, process := "controller kills", m.Controller
	switch random.IntN(4) {
	case 0:
		if err := c.RestartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		return "API server restarts"
	case 1:
		what, process = "webhook kills", m.Webhook
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(random.Int64N(int64(maxDowntime))))
	process.Start(t)
	return what
}

// report is the result of all lives of a run.
type report struct {
	mu          sync.Mutex
	seed        uint64
	lives       int
	incidents   map[string]int
	disruptions map[string]int
	restarts    int32
	failures    map[int]error // by the number of the life
	duration    time.Duration
}

// supervised is a cluster whose components are started again.
type supervised interface{ RestartExited() ([]string, error) }

// runLives runs the lives of a schedule in parallel, and disrupts the control plane meanwhile.
func runLives(t *testing.T, c supervised, r *runner, s schedule, disrupt func(*rand.Rand) string) *report {
	t.Helper()
	begin := time.Now()
	out := &report{
		seed: s.seed, incidents: map[string]int{}, disruptions: map[string]int{}, failures: map[int]error{},
	}
	t.Logf("SEED=%d, %d lives", s.seed, len(s.numbers))
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range min(r.parallel, len(s.numbers)) {
		workers.Go(func() {
			for number := range numbers {
				out.runLife(t.Context(), t, r, newLife(s.seed, number, r.faults), number)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		for _, number := range s.numbers {
			numbers <- number
		}
		close(numbers)
		workers.Wait()
		close(ended)
	}()
	t.Cleanup(func() { <-ended })              // the context of the test ends first
	random := rand.New(rand.NewPCG(s.seed, 0)) // the seed must repeat the run
	newCalm := func() time.Duration { return minCalm + time.Duration(random.Int64N(int64(maxCalm-minCalm))) }
	for next := begin.Add(newCalm()); ; {
		select {
		case <-ended:
			out.duration = time.Since(begin)
			return out
		case <-time.After(superviseInterval):
			out.supervise(t, c)
		}
		if time.Now().After(next) {
			out.disruptions[disrupt(random)]++
			next = time.Now().Add(newCalm())
		}
	}
}

// supervise restarts components of the control plane that have exited.
func (o *report) supervise(t *testing.T, c supervised) {
	t.Helper()
	exited, err := c.RestartExited()
	if err != nil {
		t.Error(err)
	}
	for _, name := range exited {
		o.disruptions[name+" exits by itself"]++
	}
}

// runLife runs one life and records its result.
func (o *report) runLife(ctx context.Context, t *testing.T, r *runner, l life, number int) {
	begin := time.Now()
	restarts, err := r.run(ctx, l)
	if ctx.Err() != nil {
		return // the test has failed for another reason
	}
	t.Logf("%.0f s, %d restarts: %s", time.Since(begin).Seconds(), restarts, l)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lives++
	o.restarts += restarts
	for _, i := range l.Incidents {
		o.incidents[i.name()]++
	}
	if err != nil {
		o.failures[number] = err
		t.Errorf("%s: %v\nReplay with SEED=%d LIFE=%d", l, err, o.seed, number)
	}
}

// print logs the report.
func (o *report) print(t *testing.T) {
	t.Helper()
	t.Logf("%d lives in %s with %d restarts, %d failed; incidents %v; disruptions %v; SEED=%d",
		o.lives, o.duration.Round(time.Second), o.restarts, len(o.failures), o.incidents, o.disruptions, o.seed)
}

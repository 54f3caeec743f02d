package bench

import (
	"context"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

const (
	// thousandGangsEnv is the environment variable that enables the test.
	thousandGangsEnv = "ROLLCALL_BENCH_THOUSAND"
	// thousandGangsNodeCount nodes have room for all pods: a simulated node takes 1,000.
	thousandGangsNodeCount = 128
)

// TestThousandGangs repeats TestScale with 1,000 gangs of 100 ranks. Then it measures the recovery
// of one more gang from a failed rank, both with a running manager and with a manager that was
// stopped during the failure.
func TestThousandGangs(t *testing.T) {
	if os.Getenv(thousandGangsEnv) != "true" {
		t.Skipf("100,000 simulated pods take about an hour and 15 GiB of memory; %s=true runs them", thousandGangsEnv)
	}
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: thousandGangsNodeCount})
	m := installation.New(t, c, "--log-level=info")
	g := newBenchCluster(t, c, nil)
	steps := make([]load, 10)
	for i := range steps {
		steps[i] = load{Gangs: 100, Ranks: 100}
	}
	all := g.measureScale(t, m, steps)
	t.Logf("\n%s", formatScaleTable(all))

	one := load{Gangs: 1, Ranks: 100}
	g.addGangs(t, one, "scale-failure")
	t.Logf("A rank failed: all %d ranks are ready again after %.1f s",
		one.Ranks, g.measureRecovery(t, one, "scale-failure", func() {}))
	g.addGangs(t, one, "scale-manager-down")
	m.Stop(t)
	var ready time.Duration
	away := g.measureRecovery(t, one, "scale-manager-down", func() {
		begin := time.Now()
		m.Start(t)
		ready = time.Since(begin)
	})
	t.Logf("A rank failed without a manager: the manager is ready after %.1f s, and all %d ranks after %.1f s",
		ready.Seconds(), one.Ranks, away)
	t.Logf("%+v", measureManagerUsage(t, m, all[len(all)-1]))
}

// measureRecovery makes a rank of the namespace's only gang fail, calls then, and returns the
// seconds from the failure until all ranks are ready again.
func (g *benchCluster) measureRecovery(t *testing.T, l load, namespace string, then func()) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), l.timeout())
	defer cancel()
	old, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := g.watchPods(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	if err := g.reportContainerFailure(ctx, old.Items[0], false); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	then()
	w := newReplacementWatch(begin, old.Items)
	if err := w.waitForReplacements(ctx, pods, l.Ranks); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin).Seconds()
}

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
	// thousandEnv asks for the gangs of a large company.
	thousandEnv = "ROLLCALL_BENCH_THOUSAND"
	// thousandNodes have room for all: a simulated node takes 1,000 pods.
	thousandNodes = 128
)

// TestThousand measures what TestScale does with 1,000 gangs of 100 ranks; and then, in their midst, how long a gang is
// away of which a rank falls, with a manager that runs and with one that was away meanwhile.
func TestThousand(t *testing.T) {
	if os.Getenv(thousandEnv) != "true" {
		t.Skipf("100,000 simulated pods take about an hour and 15 GiB of memory; %s=true runs them", thousandEnv)
	}
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: thousandNodes})
	m := installation.New(t, c, "--log-level=info")
	g := newGround(t, c, nil)
	steps := make([]load, 10)
	for i := range steps {
		steps[i] = load{Gangs: 100, Ranks: 100}
	}
	all := g.scale(t, m, steps)
	t.Logf("\n%s", scaleTable(all))

	one := load{Gangs: 1, Ranks: 100}
	g.adds(t, one, "scale-fall")
	t.Logf("A rank falls: all %d are ready again after %.1f s", one.Ranks, g.fallsAmong(t, one, "scale-fall", func() {}))
	g.adds(t, one, "scale-away")
	m.Stop(t)
	var ready time.Duration
	away := g.fallsAmong(t, one, "scale-away", func() {
		begin := time.Now()
		m.Start(t)
		ready = time.Since(begin)
	})
	t.Logf("A manager that was away: ready after %.1f s, and all %d ranks after %.1f s", ready.Seconds(), one.Ranks, away)
	t.Logf("%+v", manages(t, m, all[len(all)-1]))
}

// fallsAmong has a rank of a namespace's only gang fall, calls then, and returns how many seconds after the fall all ranks
// are ready anew.
func (g *ground) fallsAmong(t *testing.T, l load, namespace string, then func()) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	old, err := g.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := g.watch(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	if err := g.fails(ctx, old.Items[0], false); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	then()
	w := restartWatch{begin: begin, old: map[string]bool{}, ready: map[string]bool{}}
	for _, p := range old.Items {
		w.old[p.Name] = true
	}
	if err := w.follow(ctx, pods, l.Ranks); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin).Seconds()
}

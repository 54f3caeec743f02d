package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// manyGangsLoad is a burst of small gangs, such as a search for hyperparameters.
var manyGangsLoad = load{Gangs: 1000, Ranks: 10}

// manyGangsClients is the number of clients that create the gangs simultaneously.
const manyGangsClients = 20

// burstResult holds the measurements of a burst. All times begin with the first creation.
type burstResult struct {
	// CreatedSeconds is the time until all Jobs exist, ReadySeconds until all pods are ready, and
	// RunningSeconds until all gangs are in phase Running.
	CreatedSeconds, ReadySeconds, RunningSeconds float64
	// MedianLatency, HighLatency and MaxLatency are the median, the 99th percentile and the maximum of
	// the time of a creation, in milliseconds.
	MedianLatency, HighLatency, MaxLatency float64
	// CPUSeconds is the CPU time of each program until writes stop.
	CPUSeconds map[string]float64
	// Peak is the maximum memory of the controller.
	Peak memoryUsage

	writes map[writeKind]int
}

// TestManyGangs creates 1,000 gangs of 10 ranks simultaneously, and the same number of plain Jobs.
func TestManyGangs(t *testing.T) {
	skipUnlessScale(t)
	namespace := func(v variant) string { return "burst-" + string(v) }
	audit := newAuditLog(t, []string{
		namespace(variantPlain), namespace(variantLabeled), "warm-up-plain", "warm-up-labeled",
	})
	c := cluster.Start(t, cluster.Options{
		Nodes: cluster.Kwok, KwokNodes: nodeCount, APIServerFlags: audit.apiServerFlags(),
	})
	m := installation.New(t, c, "--log-level=info")
	g := newBenchCluster(t, c, audit)
	results := map[variant]burstResult{}
	for _, v := range []variant{variantPlain, variantLabeled} {
		g.measureLoad(t, warmUpLoad, v, "warm-up-"+string(v))
	}
	for _, v := range []variant{variantLabeled, variantPlain} {
		results[v] = g.measureBurst(t, m, manyGangsLoad, v, namespace(v))
		t.Logf("%s, %s: %+v; writes %v", manyGangsLoad, v, results[v], results[v].writes)
	}
	t.Logf("\n%s", formatBurst(manyGangsLoad, results, describeMachine()))
	maxWrites := manyGangsLoad.Gangs * (maxSuccessWrites - 1) // no gang has succeeded
	if n := countRollcallWrites(results[variantLabeled].writes, false); n > maxWrites {
		t.Errorf("%d writes of Rollcall, want at most %d", n, maxWrites)
	}
	if n := countRollcallWrites(results[variantPlain].writes, false); n > 0 {
		t.Errorf("%d writes of Rollcall for plain Jobs", n)
	}
}

// measureBurst creates all Jobs of a load simultaneously and waits until they run.
func (g *benchCluster) measureBurst(
	t *testing.T, m *installation.Manager, l load, v variant, namespace string,
) burstResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), l.timeout())
	defer cancel()
	must := failOnError(t, l, v)
	pods, err := g.watchPodsOfNewNamespace(ctx, namespace)
	must(err)
	defer pods.Stop()

	var r burstResult
	peak := watchMemory(m.Controller)
	before, begin := readCPUSeconds(t), time.Now()
	created := make(chan error)
	go func() {
		latencies, err := g.createSimultaneously(ctx, l, v, namespace)
		r.CreatedSeconds = time.Since(begin).Seconds()
		r.recordLatencies(latencies)
		created <- err
	}()
	_, err = waitForReadyPods(ctx, pods, l.Gangs*l.Ranks)
	must(err)
	r.ReadySeconds = time.Since(begin).Seconds()
	must(<-created)
	if v == variantLabeled {
		must(g.waitForPhase(ctx, namespace, lifecycle.Running))
		r.RunningSeconds = time.Since(begin).Seconds()
	}
	g.audit.waitUntilQuiet(t, quietPeriod)
	r.CPUSeconds = subtractCPUSeconds(readCPUSeconds(t), before)
	r.writes = g.audit.countWrites(t, namespace)
	r.Peak, err = peak()
	must(err)
	return r
}

// createSimultaneously creates the Jobs of a load and returns the time of each request in milliseconds.
func (g *benchCluster) createSimultaneously(
	ctx context.Context, l load, v variant, namespace string,
) (latencies []float64, err error) {
	var mu sync.Mutex // of latencies
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(manyGangsClients)
	for i := range l.Gangs {
		j := newJob(fmt.Sprintf("train-%04d", i), namespace, int32(l.Ranks))
		if v == variantLabeled {
			j.Labels = map[string]string{gang.LabelFramework: "pytorch"}
		}
		group.Go(func() error {
			begin := time.Now()
			if _, err := g.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating %s: %w", j.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, toMilliseconds(time.Since(begin)))
			return nil
		})
	}
	err = group.Wait()
	return latencies, err
}

func (r *burstResult) recordLatencies(latencies []float64) {
	if len(latencies) == 0 {
		return
	}
	r.MedianLatency = computeMedian(latencies) // sorts them
	r.HighLatency, r.MaxLatency = latencies[len(latencies)*99/100], latencies[len(latencies)-1]
}

// formatBurst returns a table with a column for each variant.
func formatBurst(l load, results map[variant]burstResult, machine string) string {
	columns := []variant{variantPlain, variantLabeled}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n| %s | Plain | Labeled |\n|---|---|---|", machine, l)
	row := func(name string, format func(burstResult) string) {
		fmt.Fprintf(&out, "\n| %s |", name)
		for _, v := range columns {
			fmt.Fprintf(&out, " %s |", format(results[v]))
		}
	}
	row("Until all Jobs exist", func(r burstResult) string { return formatSeconds(r.CreatedSeconds) })
	row("One creation: median, 99th percentile, maximum", func(r burstResult) string {
		return fmt.Sprintf("%.0f, %.0f, %.0f ms", r.MedianLatency, r.HighLatency, r.MaxLatency)
	})
	row("Until all pods run", func(r burstResult) string { return formatSeconds(r.ReadySeconds) })
	row("Until all gangs are in phase `Running`", func(r burstResult) string {
		if r.RunningSeconds == 0 {
			return ""
		}
		return formatSeconds(r.RunningSeconds)
	})
	row("Writes of Rollcall, accepted and rejected", func(r burstResult) string {
		return fmt.Sprintf("%s, %s", formatThousands(countRollcallWrites(r.writes, false)),
			formatThousands(countRollcallWrites(r.writes, true)))
	})
	row("Controller: resident memory, live heap", func(r burstResult) string { return r.Peak.format() })
	for _, program := range listPrograms(results[variantLabeled].CPUSeconds) {
		row("CPU of "+program, func(r burstResult) string { return fmt.Sprintf("%.1f s", r.CPUSeconds[program]) })
	}
	return out.String() + "\n"
}

// TestBurstTable checks the cells of the table, and that latencies need not be sorted.
func TestBurstTable(t *testing.T) {
	labeled := burstResult{
		CreatedSeconds: 20.25, ReadySeconds: 200, RunningSeconds: 201, Peak: memoryUsage{ResidentMiB: 100, LiveHeapMiB: 30},
		CPUSeconds: map[string]float64{"manager": 12}, writes: map[writeKind]int{{Writer: writerRollcall}: 2000},
	}
	latencies := slices.Repeat([]float64{900, 7, 7}, 50)
	labeled.recordLatencies(latencies)
	table := formatBurst(load{Gangs: 1000, Ranks: 10}, map[variant]burstResult{
		variantLabeled: labeled, variantPlain: {CPUSeconds: map[string]float64{}},
	}, "Commit `a`.")
	for _, want := range []string{
		"Commit `a`.\n\n| 1000 gangs of 10 ranks | Plain | Labeled |\n",
		"| Until all Jobs exist | 0 ms | 20.2 s |\n",
		"| 0, 0, 0 ms | 7, 900, 900 ms |\n",
		"| Until all gangs are in phase `Running` |  | 201.0 s |\n",
		"| Writes of Rollcall, accepted and rejected | 0, 0 | 2,000, 0 |\n",
		"| CPU of manager | 0.0 s | 12.0 s |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not contain %q:\n%s", want, table)
		}
	}
}

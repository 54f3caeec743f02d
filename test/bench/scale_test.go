package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// scaleSteps are loads that the test adds one after another. Many small gangs show the cost of a
// gang, large gangs the cost of a pod.
var scaleSteps = []load{{Gangs: 200, Ranks: 2}, {Gangs: 40, Ranks: 50}, {Gangs: 20, Ranks: 100}}

// idlePeriod is how long the test measures the manager's CPU time when the cluster is idle.
const idlePeriod = 10 * time.Second

// maxTimePerPod bounds the time for each pod of a load. Two otherwise idle cores start about 70
// pods per second.
const maxTimePerPod = 200 * time.Millisecond

// managerUsage holds the resource usage of the manager after a step.
type managerUsage struct {
	Gangs, Pods int
	memoryUsage
	// StepSeconds is the duration of the step. CPUSeconds is the CPU time of the manager during the
	// step. IdleCPURate is its CPU seconds per second when the cluster is idle.
	StepSeconds, CPUSeconds, IdleCPURate float64
}

// TestScale measures the memory and CPU of the manager with an increasing number of gangs.
func TestScale(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodeCount})
	m := installation.New(t, c, "--log-level=info")
	g := newBenchCluster(t, c, nil)
	all := g.measureScale(t, m, scaleSteps)
	a, b := all[len(all)-2], all[len(all)-1]
	t.Logf("\n%sOf the last step, for each pod: %.1f KiB resident, %.1f KiB of live heap.", formatScaleTable(all),
		(b.ResidentMiB-a.ResidentMiB)*1024/float64(b.Pods-a.Pods), (b.LiveHeapMiB-a.LiveHeapMiB)*1024/float64(b.Pods-a.Pods))
}

// measureScale adds one load after another and returns the usage of the manager before the first
// load and after each of them.
func (g *benchCluster) measureScale(t *testing.T, m *installation.Manager, steps []load) []managerUsage {
	t.Helper()
	all := []managerUsage{measureManagerUsage(t, m, managerUsage{})}
	for i, l := range steps {
		last := all[len(all)-1]
		h := managerUsage{Gangs: last.Gangs + l.Gangs, Pods: last.Pods + l.Gangs*l.Ranks}
		before, begin := readCPUSeconds(t)["manager"], time.Now()
		g.addGangs(t, l, fmt.Sprintf("scale-%d", i))
		h.StepSeconds, h.CPUSeconds = time.Since(begin).Seconds(), readCPUSeconds(t)["manager"]-before
		time.Sleep(quietPeriod)
		h = measureManagerUsage(t, m, h)
		t.Logf("%+v", h)
		all = append(all, h)
	}
	return all
}

func formatScaleTable(all []managerUsage) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(
		w, "gangs\tpods\tresident, MiB\tlive heap, MiB\tuntil all run, s\tCPU of the manager, s\tCPU when idle, s/s\t",
	)
	for _, h := range all {
		fmt.Fprintf(
			w, "%d\t%d\t%.0f\t%.1f\t%.0f\t%.1f\t%.4f\t\n",
			h.Gangs, h.Pods, h.ResidentMiB, h.LiveHeapMiB, h.StepSeconds, h.CPUSeconds, h.IdleCPURate,
		)
	}
	_ = w.Flush()
	return text.String()
}

// addGangs creates gangs and waits until all of them run.
func (g *benchCluster) addGangs(t *testing.T, l load, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), l.timeout())
	defer cancel()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := g.createJobs(ctx, l, variantLabeled, namespace); err != nil {
		t.Fatal(err)
	}
	if err := g.waitForPhase(ctx, namespace, lifecycle.Running); err != nil {
		t.Fatal(err)
	}
}

// measureManagerUsage reads the usage of the idle manager.
func measureManagerUsage(t *testing.T, m *installation.Manager, h managerUsage) managerUsage {
	t.Helper()
	before := readCPUSeconds(t)["manager"]
	time.Sleep(idlePeriod)
	h.IdleCPURate = (readCPUSeconds(t)["manager"] - before) / idlePeriod.Seconds()
	var err error
	if h.memoryUsage, err = readMemory(t.Context(), m.Controller); err != nil {
		t.Fatal(err)
	}
	return h
}

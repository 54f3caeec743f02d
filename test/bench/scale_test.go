package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall.training/test/cluster"
	"rollcall.training/test/installation"
)

// scaleSteps are gangs that are added one load after another: many small ones tell what a gang costs, large ones what a
// pod does.
var scaleSteps = []load{{Gangs: 200, Ranks: 2}, {Gangs: 40, Ranks: 50}, {Gangs: 20, Ranks: 100}}

// rests is how long the manager's CPU is measured when nothing happens.
const rests = 10 * time.Second

// slowest bounds the time for each pod of a load: two cores that do nothing else start about 70 pods in a second.
const slowest = 200 * time.Millisecond

// held is what the manager holds after a step.
type held struct {
	Gangs, Pods int
	// Resident is its memory, Live what the last garbage collection left; in MiB.
	Resident, Live float64
	// Ready is how long the step took, CPU what the manager computed meanwhile, Rest what it computes in a second of rest.
	Ready, CPU, Rest float64
}

// TestScale measures the manager's memory and CPU with ever more gangs.
func TestScale(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: cluster.Kwok, KwokNodes: nodes})
	m := installation.New(t, c, "--log-level=info")
	g := newGround(t, c, nil)
	all := g.scale(t, m, scaleSteps)
	a, b := all[len(all)-2], all[len(all)-1]
	t.Logf("\n%sOf the last step, for each pod: %.1f KiB resident, %.1f KiB of live heap.", scaleTable(all),
		(b.Resident-a.Resident)*1024/float64(b.Pods-a.Pods), (b.Live-a.Live)*1024/float64(b.Pods-a.Pods))
}

// scale adds one load after another and returns what the manager holds before the first and after each.
func (g *ground) scale(t *testing.T, m *installation.Manager, steps []load) []held {
	t.Helper()
	all := []held{manages(t, m, held{})}
	for i, l := range steps {
		last := all[len(all)-1]
		h := held{Gangs: last.Gangs + l.Gangs, Pods: last.Pods + l.Gangs*l.Ranks}
		before, begin := cpu(t)["manager"], time.Now()
		g.adds(t, l, fmt.Sprintf("scale-%d", i))
		h.Ready, h.CPU = time.Since(begin).Seconds(), cpu(t)["manager"]-before
		time.Sleep(settled)
		h = manages(t, m, h)
		t.Logf("%+v", h)
		all = append(all, h)
	}
	return all
}

func scaleTable(all []held) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "gangs\tpods\tresident, MiB\tlive heap, MiB\tuntil all run, s\tCPU of the manager, s\tCPU at rest, s/s\t")
	for _, h := range all {
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%.1f\t%.0f\t%.1f\t%.4f\t\n", h.Gangs, h.Pods, h.Resident, h.Live, h.Ready, h.CPU, h.Rest)
	}
	_ = w.Flush()
	return text.String()
}

// adds makes gangs and waits until all of them run.
func (g *ground) adds(t *testing.T, l load, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), max(limit, time.Duration(l.Gangs*l.Ranks)*slowest))
	defer cancel()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := g.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := g.create(ctx, l, labelled, namespace); err != nil {
		t.Fatal(err)
	}
	if err := g.running(ctx, namespace); err != nil {
		t.Fatal(err)
	}
}

// manages reads what the manager holds, at rest.
func manages(t *testing.T, m *installation.Manager, h held) held {
	t.Helper()
	before := cpu(t)["manager"]
	time.Sleep(rests)
	h.Rest = (cpu(t)["manager"] - before) / rests.Seconds()
	var text bytes.Buffer
	if err := m.Metrics(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "process_resident_memory_bytes":
			h.Resident = n / mib
		case name == "go_memstats_next_gc_bytes":
			h.Live = n / 2 / mib // the next collection is due at twice what the last one left (GOGC=100)
		}
	}
	if h.Resident == 0 || h.Live == 0 {
		t.Fatal("the manager does not tell its memory")
	}
	return h
}

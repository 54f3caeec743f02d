package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollcall.training/gang"
)

func TestMeasure(t *testing.T) {
	fell := began.Add(time.Minute)
	before := testutil.ToFloat64(restarts.WithLabelValues("measured", "oom"))
	measure("measured", gang.Status{Phase: gang.Restarting, Cause: &gang.Fall{Reason: "OOMKilled", Container: "trainer", ExitCode: 137}}, gang.Running)
	measure("measured", gang.Status{Phase: gang.Restarting, Cause: &gang.Fall{Reason: "OOMKilled"}}, gang.Restarting) // said again
	if n := testutil.ToFloat64(restarts.WithLabelValues("measured", "oom")) - before; n != 1 {
		t.Errorf("one restart was counted %v times", n)
	}
	measure("measured", gang.Status{Phase: gang.Running, Begun: began, Since: began.Add(4 * time.Second)}, gang.Pending)
	measure("measured", gang.Status{Phase: gang.Running, Attempt: 1, Begun: fell, Fell: fell, Since: fell.Add(7 * time.Second)}, gang.Starting)
	starts := sampled(t, "rollcall_gang_start_seconds")
	measure("measured", gang.Status{Phase: gang.Running, WasWhole: true, Begun: began, Since: began.Add(time.Hour)}, gang.Pending)
	if n := sampled(t, "rollcall_gang_start_seconds"); n != starts {
		t.Errorf("a gang that was ready before took %d samples of its start, not %d", n, starts)
	}
	for name, h := range map[string]struct {
		got  int
		want string
	}{
		"first start": {testutil.CollectAndCount(secondsToRun), "rollcall_gang_start_seconds"},
		"restart":     {testutil.CollectAndCount(secondsToReturn), "rollcall_gang_restart_seconds"},
	} {
		if h.got == 0 {
			t.Errorf("%s: %s holds nothing", name, h.want)
		}
	}
}

// sampled is how often a histogram was observed.
func sampled(t *testing.T, name string) uint64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestCause(t *testing.T) {
	for want, f := range map[string]*gang.Fall{
		"other": nil, "oom": {Reason: "OOMKilled", Container: "trainer"}, "exit": {Reason: "Error", Container: "trainer"},
		"deleted": {Reason: gang.FallDeleted}, "late": {Reason: gang.FallLate}, "unseen": {Reason: gang.FallUnseen}, "evicted": {Reason: "EvictionByEvictionAPI"},
	} {
		if got := cause(f); got != want {
			t.Errorf("the cause of %+v is %q, want %q", f, got, want)
		}
	}
}

func TestCensus(t *testing.T) {
	w := newWorld(t, launcher(t), worker(t))
	w.look(t, train)
	want := `
# HELP rollcall_gangs Gangs, by framework and phase.
# TYPE rollcall_gangs gauge
rollcall_gangs{framework="mpi",phase="Pending"} 1
`
	if err := testutil.CollectAndCompare(census{w.Client}, strings.NewReader(want)); err != nil {
		t.Errorf("a gang of two workloads is one: %v", err)
	}
}

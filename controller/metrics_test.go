package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

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

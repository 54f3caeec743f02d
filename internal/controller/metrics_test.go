package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

func TestRecordTransition(t *testing.T) {
	failed := testStartTime.Add(time.Minute)
	before := testutil.ToFloat64(restartsTotal.WithLabelValues("team", "measured", "oom_killed"))
	recordTransition("team", "measured", lifecycle.Status{
		State: lifecycle.State{
			Phase:        lifecycle.Restarting,
			Restarts:     1,
			FirstFailure: &failure.Failure{Reason: "OOMKilled", Container: "trainer", ExitCode: 137},
		},
	}, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Running}})
	recordTransition("team", "measured", lifecycle.Status{
		State: lifecycle.State{Phase: lifecycle.Restarting, FirstFailure: &failure.Failure{Reason: "OOMKilled"}},
	}, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Restarting}}) // the phase does not change
	if n := testutil.ToFloat64(restartsTotal.WithLabelValues("team", "measured", "oom_killed")) - before; n != 1 {
		t.Errorf("one restart counts as %v", n)
	}
	recordTransition("team", "measured", lifecycle.Status{
		State: lifecycle.State{
			Phase:              lifecycle.Running,
			LastTransitionTime: testStartTime.Add(4 * time.Second),
			Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: testStartTime},
		},
	}, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Pending}})
	recordTransition("team", "measured", lifecycle.Status{
		State: lifecycle.State{
			Phase:              lifecycle.Running,
			Restarts:           1,
			LastRestartTime:    failed,
			LastTransitionTime: failed.Add(7 * time.Second),
			Bookkeeping:        lifecycle.Bookkeeping{AttemptStartTime: failed},
		},
	}, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Starting}})
	starts := histogramSampleCount(t, "rollcall_gang_startup_duration_seconds")
	recordTransition("team", "measured", lifecycle.Status{
		State: lifecycle.State{
			Phase:              lifecycle.Running,
			LastTransitionTime: testStartTime.Add(time.Hour),
			Bookkeeping:        lifecycle.Bookkeeping{StartCompleted: true, AttemptStartTime: testStartTime},
		},
	}, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Pending}})
	if n := histogramSampleCount(t, "rollcall_gang_startup_duration_seconds"); n != starts {
		t.Errorf("%d startup samples after a gang became ready again, want %d", n, starts)
	}
	for name, h := range map[string]struct {
		got  int
		want string
	}{
		"first start": {
			got:  testutil.CollectAndCount(startupDuration),
			want: "rollcall_gang_startup_duration_seconds",
		},
		"restart": {
			got:  testutil.CollectAndCount(recoveryDuration),
			want: "rollcall_gang_recovery_duration_seconds",
		},
	} {
		if h.got == 0 {
			t.Errorf("%s: %s has no samples", name, h.want)
		}
	}
}

// TestRecordSeconds checks that each second of a gang counts once, and that no user makes it count more often.
func TestRecordSeconds(t *testing.T) {
	count := func(activity string) (seconds, accelerators float64) {
		return testutil.ToFloat64(secondsTotal.WithLabelValues("spent", activity)),
			testutil.ToFloat64(acceleratorSecondsTotal.WithLabelValues("spent", activity))
	}
	var last lifecycle.Status
	record := func(phase lifecycle.Phase, s lifecycle.Seconds) {
		next := lifecycle.Status{State: lifecycle.State{Phase: phase, Seconds: s}}
		recordSeconds("spent", 8, time.Hour, next, last)
		last = next
	}
	record(lifecycle.Running, lifecycle.Seconds{Starting: 10})
	if n := testutil.CollectAndCount(secondsTotal); n < 7 {
		t.Errorf("%d series exist before they increase", n)
	}
	record(lifecycle.Pending, lifecycle.Seconds{Starting: 10, Ran: 50})
	record(lifecycle.Restarting, lifecycle.Seconds{Starting: 10, Ran: 100, Restarting: 5})
	record(lifecycle.Pending, lifecycle.Seconds{Starting: 10, Restarting: 8, RanBeforeFailure: 100})
	record(lifecycle.Running, lifecycle.Seconds{Starting: 10, Restarting: 20, RanBeforeFailure: 100})
	record(lifecycle.Succeeded, lifecycle.Seconds{Starting: 10, Restarting: 20, RanBeforeFailure: 100, Ran: 900})
	record(lifecycle.Succeeded, last.Seconds) // another message
	record(lifecycle.Running, lifecycle.Seconds{})
	record(lifecycle.Suspended, lifecycle.Seconds{RanBeforeDisruption: 1 << 40}) // a user wrote the last status
	for activity, want := range map[string]float64{
		"starting": 10, "restarting": 20, "ran_before_failure": 100, "ran": 900, "ran_before_disruption": 3600,
		"suspended": 0, "ran_before_suspension": 0,
	} {
		if seconds, accelerators := count(activity); seconds != want || accelerators != 8*want {
			t.Errorf("%s: %v s and %v accelerator-seconds, want %v s on 8 accelerators", activity, seconds, accelerators, want)
		}
	}
}

// histogramSampleCount returns the number of samples of a histogram.
func histogramSampleCount(t *testing.T, name string) uint64 {
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
	t.Fatalf("%s is not registered", name)
	return 0
}

func TestRestartReason(t *testing.T) {
	for want, f := range map[string]*failure.Failure{
		"other": nil, "oom_killed": {
			Reason:    "OOMKilled",
			Container: "trainer",
		}, "container_exit": {Reason: "Error", Container: "trainer"},
		"deleted": {
			Reason: failure.ReasonPodDeleted,
		}, "start_timeout": {
			Reason: failure.ReasonStartTimeout,
		}, "unobserved": {Reason: failure.ReasonRankLost},
		"preflight_failed": {Reason: failure.ReasonPreflightFailed, Container: "check"},
		"schedule_timeout": {Reason: failure.ReasonScheduleTimeout},
		"device_unhealthy": {Reason: failure.ReasonDeviceUnhealthy, Container: "trainer"},
		"node_lost":        {Reason: failure.ReasonNodeLost}, "evicted": {Reason: "EvictionByEvictionAPI"},
	} {
		if got := restartReason(f); got != want {
			t.Errorf("reason of %+v: %q, want %q", f, got, want)
		}
	}
}

func TestGangCollector(t *testing.T) {
	w := newTestCluster(t, newLauncherJob(t), newWorkerStatefulSet(t))
	w.reconcileOnce(t, trainRequest)
	want := `
# HELP rollcall_gangs Gangs, by namespace, framework and phase.
# TYPE rollcall_gangs gauge
rollcall_gangs{framework="mpi",namespace="team",phase="Pending"} 1
`
	collector := newTestCollector(w, 10)
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), "rollcall_gangs"); err != nil {
		t.Errorf("a gang of two workloads must count once: %v", err)
	}
}

// TestOldestTransition checks the time since which gangs wait.
func TestOldestTransition(t *testing.T) {
	admitted := newLauncherJob(t)
	restarting := lifecycle.Status{State: lifecycle.State{
		Phase: lifecycle.Restarting, LastTransitionTime: testStartTime.Add(time.Hour),
	}}
	text, err := restarting.Encode()
	if err != nil {
		t.Fatal(err)
	}
	restarted := newLauncherJob(t)
	restarted.Annotations[gang.AnnotationStatus] = text
	external := newLauncherJob(t)
	external.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue")
	for name, c := range map[string]struct {
		job   *batchv1.Job
		phase lifecycle.Phase
		want  time.Time
	}{
		"a gang without a status waits since its creation": {
			job: admitted, phase: lifecycle.Pending, want: testStartTime,
		},
		"a restarting gang waits since the restart": {
			job: restarted, phase: lifecycle.Restarting, want: testStartTime.Add(time.Hour),
		},
		"a running gang does not wait":                  {job: restarted, phase: lifecycle.Running},
		"a suspended gang does not wait":                {job: restarted, phase: lifecycle.Suspended},
		"a gang of another controller is not monitored": {job: external, phase: lifecycle.Pending},
	} {
		if got := readWaitTime(gang.Workload{Job: c.job}, c.phase); !got.Equal(c.want) {
			t.Errorf("%s: the time is %v, want %v", name, got, c.want)
		}
	}
	const metric = "rollcall_gang_oldest_transition_timestamp_seconds"
	young := newLauncherJob(t)
	young.Name, young.CreationTimestamp = "young-launcher", metav1.NewTime(testStartTime.Add(time.Minute))
	w := newTestCluster(t, admitted, young)
	collector := newTestCollector(w, 10)
	want := "# HELP " + metric + " Time since which some gang is in the phase Pending, Starting or Restarting, " +
		"by namespace, framework and phase, in seconds since the Unix epoch.\n# TYPE " + metric + " gauge\n" +
		fmt.Sprintf("%s{framework=\"mpi\",namespace=\"team\",phase=\"Pending\"} %d\n", metric, testStartTime.Unix())
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), metric); err != nil {
		t.Errorf("the metric is not the time of the oldest gang: %v", err)
	}
}

func newTestCollector(w *testCluster, namespaces int) gangCollector {
	w.namespaceLabels = &namespaceLabels{limit: namespaces}
	return gangCollector{w.Reconciler}
}

// TestFinishedGangs checks that each finished gang counts once by its result.
func TestFinishedGangs(t *testing.T) {
	for _, phase := range []lifecycle.Phase{lifecycle.Succeeded, lifecycle.Failed} {
		counter := finishedTotal.WithLabelValues("team", "measured", string(phase))
		before := testutil.ToFloat64(counter)
		status := lifecycle.Status{State: lifecycle.State{Phase: phase}}
		recordTransition("team", "measured", status, lifecycle.Status{State: lifecycle.State{Phase: lifecycle.Running}})
		recordTransition("team", "measured", status, status)
		if n := testutil.ToFloat64(counter) - before; n != 1 {
			t.Errorf("one gang in the phase %s counts as %v", phase, n)
		}
	}
}

// TestAttackMetricLabels checks that workloads that Rollcall does not manage create no series of metrics, and that
// namespaces beyond the limit share one series.
func TestAttackMetricLabels(t *testing.T) {
	var objects []client.Object
	for i := range 50 {
		forged := newLauncherJob(t)
		forged.Name, forged.UID = fmt.Sprintf("forged-%d", i), types.UID(fmt.Sprint(i))
		forged.Spec.Template.Labels[gang.LabelFramework] = fmt.Sprintf("framework-%d", i)
		forged.Labels[gang.LabelFramework] = fmt.Sprintf("framework-%d", i)
		phase := newLauncherJob(t)
		phase.Name, phase.UID = fmt.Sprintf("phase-%d", i), types.UID(fmt.Sprintf("phase-%d", i))
		phase.Labels[gang.LabelPhase] = fmt.Sprintf("Phase%d", i)
		optedOut := newLauncherJob(t)
		optedOut.Name, optedOut.UID = fmt.Sprintf("out-%d", i), types.UID(fmt.Sprintf("out-%d", i))
		optedOut.Labels[gang.LabelInject] = "false"
		notInjected := newLauncherJob(t)
		notInjected.Name, notInjected.UID = fmt.Sprintf("not-%d", i), types.UID(fmt.Sprintf("not-%d", i))
		delete(notInjected.Annotations, gang.AnnotationInjected)
		member := newLauncherJob(t)
		member.Namespace, member.UID = fmt.Sprintf("team-%d", i), types.UID(fmt.Sprintf("member-%d", i))
		large := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i), Name: "train", Annotations: map[string]string{annotationTooLarge: ""},
		}}
		objects = append(objects, forged, phase, optedOut, notInjected, member, large)
	}
	w := newTestCluster(t, objects...)
	for namespaces, want := range map[int]int{0: 1, 3: 4, 100: 50} {
		counts := newTestCollector(w, namespaces).countGangs()
		if len(counts.gangs) != want || len(counts.oldest) != want || len(counts.tooLarge) != want {
			t.Errorf("%d, %d and %d series with at most %d namespaces, want %d",
				len(counts.gangs), len(counts.oldest), len(counts.tooLarge), namespaces, want)
		}
		for group := range counts.gangs {
			if group.framework != "mpi" || group.phase != string(lifecycle.Pending) {
				t.Errorf("the series %+v", group)
			}
		}
	}
	// A restart of a gang that cannot be parsed does not count by the label of its user.
	for _, family := range []string{"rollcall_gang_restarts_total", "rollcall_gangs_finished_total"} {
		job := newLauncherJob(t)
		job.Name, job.UID = "forged-0", "0"
		job.Labels[gang.LabelFramework], job.Spec.Template.Labels[gang.LabelFramework] = "forged", "forged"
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		newTestCluster(t, job).reconcileOnce(t, Request{Namespace: "team", Kind: gang.Job, Name: "forged-0"})
		if hasLabelValue(t, family, "forged") {
			t.Errorf("%s has a value that a user chose", family)
		}
	}
}

// hasLabelValue reports whether a label of a metric has a value.
func hasLabelValue(t *testing.T, metric, value string) bool {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == metric && label.GetValue() == value {
					return true
				}
			}
		}
	}
	return false
}

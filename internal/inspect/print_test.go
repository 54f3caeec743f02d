package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/roster"
)

// newRestartingGang returns an MPI gang of three members with a value in every field that is
// printed.
func newRestartingGang() Gang {
	return Gang{
		Name: "train", Namespace: "team", Framework: "mpi",
		Phase:              lifecycle.Restarting,
		LastTransitionTime: ptr.To(testTime.Add(-90 * time.Second)),
		Restarts:           2,
		MaxRestarts:        ptr.To[int32](3),
		Disruptions:        5,
		NextRestartTime:    ptr.To(testTime.Add(8 * time.Second)),
		Message:            "Restart 2 of 3: rank 2",
		Size:               3,
		Ready:              2,
		FirstFailure: &failure.Failure{
			Rank: 2, Pod: "train-worker-1", Node: "node-b", Container: "worker", ExitCode: 137, Reason: "OOMKilled",
			Message: "step 41\nCUDA out of memory",
			Time:    testTime.Add(-91 * time.Second),
		},
		Members: []Member{
			{Kind: gang.Job, Name: "train-launcher", Role: "launcher", Size: 1, Ready: 1},
			{Kind: gang.StatefulSet, Name: "train-worker", Role: "worker", Offset: 1, Size: 2, Ready: 1, Suspended: true},
			{Name: "train-chief", Role: "chief", Offset: 3, Size: 1, Missing: true},
		},
		Ranks: []Rank{
			{Rank: 0, State: lifecycle.RankReady, Member: "train-launcher", Role: "launcher", Pod: "train-0"},
			{Rank: 1, State: lifecycle.RankReady, Member: "train-worker", Role: "worker", Pod: "train-worker-0"},
			{
				Rank: 2, State: lifecycle.RankFailed, Member: "train-worker", Role: "worker",
				Pod: "train-worker-1", Node: "node-b", Reason: "OOMKilled",
			},
		},
		Events: []Event{{
			Time: testTime.Add(-time.Minute), Type: "Warning", Reason: "GangRestarting",
			Object: "Job/train-launcher", Message: "Restart 2 of 3", Count: 3,
		}},
		Warnings: []string{"Job other is another gang with the same name"},
	}
}

func TestPrintGang(t *testing.T) {
	want := `team/train  mpi  Restarting since 11:58:30 (90s)  restarts 2/3  disruptions 5
Restart 2 of 3: rank 2
Next restart at 12:00:08, in 8s

MEMBER                    ROLE      RANKS  READY
Job train-launcher        launcher  0      1/1
StatefulSet train-worker  worker    1-2    1/2, suspended
train-chief               chief     3      missing

# 2 ready   x 1 failed
  launcher
      0  #
  worker
      1  #x

RANK  STATE   POD             NODE    REASON
2     failed  train-worker-1  node-b  OOMKilled

First failure at 11:58:29
  rank 2 (pod train-worker-1 on node node-b): OOMKilled, container worker exited with code 137
    step 41
    CUDA out of memory

AGE       TYPE     REASON          OBJECT              MESSAGE
60s (x3)  Warning  GangRestarting  Job/train-launcher  Restart 2 of 3

warning: Job other is another gang with the same name
`
	var out strings.Builder
	PrintGang(&out, PrintOptions{Now: testTime}, newRestartingGang())
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestPrintSeconds(t *testing.T) {
	const hour = 3600
	running := lifecycle.State{Phase: lifecycle.Running, LastTransitionTime: testTime.Add(-30 * time.Minute)}
	for name, c := range map[string]struct {
		state   lifecycle.State
		seconds lifecycle.Seconds
		queued  bool
		want    string
	}{
		"a gang that only started and ran needs no line": {
			state: running, seconds: lifecycle.Seconds{Starting: 60, Ran: hour},
		},
		"a gang after a failure and an eviction by its queue": {
			state: running,
			seconds: lifecycle.Seconds{
				Starting: 20, Ran: 36.7 * hour, Suspended: 1.2 * hour, Restarting: 0.9 * hour, RanBeforeFailure: 1.94 * hour,
			},
			queued: true,
			want:   "Of 41 h: 37 h ran, 1.2 h queued, 0.9 h restarting, 1.9 h in attempts that failed\n",
		},
		"the time of a restarting gang belongs to the cause": {
			state: lifecycle.State{
				Phase: lifecycle.Restarting, LastTransitionTime: testTime.Add(-90 * time.Second),
				FirstFailure: &failure.Failure{Reason: failure.ReasonNodeLost},
			},
			seconds: lifecycle.Seconds{Starting: 30, Ran: 540},
			want:    "Of 11 min: 0.5 min starting, 1.5 min restarting, 9 min in attempts that were disrupted\n",
		},
		"a gang that failed at once": {
			state:   lifecycle.State{Phase: lifecycle.Failed},
			seconds: lifecycle.Seconds{Starting: 4, Suspended: 50, RanBeforeFailure: 3, RanBeforeSuspension: 60},
			want: "Of 117 s: 4 s starting, 50 s suspended, 3 s in attempts that failed, " +
				"60 s in attempts that were suspended\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Seconds = c.seconds
			var out strings.Builder
			g := Gang{Name: "train", Framework: "mpi", Phase: c.state.Phase, state: c.state, isQueued: c.queued}
			printHeader(&out, PrintOptions{Now: testTime}, g)
			_, spent, _ := strings.Cut(out.String(), "\n")
			if diff := cmp.Diff(c.want, spent); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrintDisruptions(t *testing.T) {
	for name, c := range map[string]struct {
		disruptions int32
		limit       *int32
		want        string
	}{
		"a gang without disruptions shows only restarts": {
			want: "team/train  mpi  Running  restarts 1/3\n",
		},
		"unlimited disruptions have no maximum": {
			disruptions: 5, want: "team/train  mpi  Running  restarts 1/3  disruptions 5\n",
		},
		"limited disruptions have their maximum": {
			disruptions: 5, limit: ptr.To[int32](10), want: "team/train  mpi  Running  restarts 1/3  disruptions 5/10\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printHeader(&out, PrintOptions{Now: testTime}, Gang{
				Name: "train", Namespace: "team", Framework: "mpi", Phase: lifecycle.Running,
				Restarts: 1, MaxRestarts: ptr.To[int32](3), Disruptions: c.disruptions, MaxDisruptions: c.limit,
			})
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrintGangTruncatesLines(t *testing.T) {
	var out strings.Builder
	PrintGang(&out, PrintOptions{Now: testTime, Width: 40}, newRestartingGang())
	for line := range strings.Lines(out.String()) {
		isTruncated := !strings.HasPrefix(line, "team/") && !strings.HasPrefix(line, "warning:")
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 40 && isTruncated {
			t.Errorf("%q has %d columns, want at most 40", line, n)
		}
	}
}

func TestPrintGangs(t *testing.T) {
	gangs := []Gang{
		{
			Name: "old", Namespace: "a", Framework: "jax", CreationTimestamp: testTime.Add(-3 * time.Hour),
			Phase: lifecycle.Succeeded, Size: 4, Succeeded: 4, Message: "The gang succeeded",
		},
		{
			Name: "train", Namespace: "b", Framework: "pytorch", CreationTimestamp: testTime.Add(-time.Minute),
			Phase: lifecycle.Running, Size: 8, Ready: 8, Restarts: 1, MaxRestarts: ptr.To[int32](3),
			Message: "All 8 ranks have been ready",
		},
		{Name: "unseen", Namespace: "b", Framework: "pytorch", Size: 2},
	}
	for name, c := range map[string]struct {
		showNamespace bool
		want          string
	}{
		"gangs without a phase or a maximum of restarts have dashes": {
			want: `GANG    FRAMEWORK  PHASE      RESTARTS  RANKS             AGE        MESSAGE
old     jax        Succeeded  -         0/4, 4 succeeded  3h         The gang succeeded
train   pytorch    Running    1/3       8/8               60s        All 8 ranks have been ready
unseen  pytorch    -          -         0/2               <unknown>
`,
		},
		"the namespace is the first column": {
			showNamespace: true,
			want: `NAMESPACE  GANG    FRAMEWORK  PHASE      RESTARTS  RANKS             AGE        MESSAGE
a          old     jax        Succeeded  -         0/4, 4 succeeded  3h         The gang succeeded
b          train   pytorch    Running    1/3       8/8               60s        All 8 ranks have been ready
b          unseen  pytorch    -          -         0/2               <unknown>
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			PrintGangs(&out, PrintOptions{Now: testTime}, gangs, c.showNamespace)
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFormatMessage checks that a running gang whose ranks are not ready does not seem to be ready.
func TestFormatMessage(t *testing.T) {
	const all, elastic = "All 3 ranks have been ready", "At least 2 ranks have been ready"
	twoOrThree := &gang.ElasticBounds{Min: 2, Max: 3}
	for name, c := range map[string]struct {
		elastic          *gang.ElasticBounds
		ready, succeeded int32
		reason           gang.Reason
		message          string
		want             string
	}{
		"all ranks are ready":        {ready: 3, message: all, want: all},
		"a rank is not ready":        {ready: 2, message: all, want: all + ", now 2"},
		"no rank is ready":           {message: all, want: all + ", now 0"},
		"the other ranks succeeded":  {ready: 1, succeeded: 2, message: all, want: all},
		"the message has a problem":  {reason: gang.ReasonMemberConflict, message: "A problem", want: "A problem"},
		"an elastic gang has enough": {elastic: twoOrThree, ready: 2, message: elastic, want: elastic},
		"an elastic gang needs one":  {elastic: twoOrThree, ready: 1, message: elastic, want: elastic + ", now 1"},
	} {
		t.Run(name, func(t *testing.T) {
			job := newAdmittedJob(t, "train", "pytorch", 3)
			if c.reason == "" {
				c.reason = gang.ReasonGangRunning
			}
			status := lifecycle.Status{Reason: c.reason, Message: c.message}
			status.Phase = lifecycle.Running
			text, err := status.Encode()
			if err != nil {
				t.Fatal(err)
			}
			job.Annotations[gang.AnnotationStatus], job.Labels[gang.LabelPhase] = text, string(lifecycle.Running)
			w := roster.ReadMember(newEngine(), gang.Workload{Job: job})
			w.Result.Gang.Elastic, w.Result.Gang.Framework.ElasticRole = c.elastic, w.Result.Gang.Role
			g := group{Gang: roster.Gang{Roster: roster.Roster[roster.Member]{Members: []roster.Member{w}}}}.buildGang()
			g.Ready, g.Succeeded = c.ready, c.succeeded
			if got := g.formatMessage(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

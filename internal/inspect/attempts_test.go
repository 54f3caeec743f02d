package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
)

// formatAttempts returns the attempts with their periods in seconds after testTime.
func formatAttempts(attempts []Attempt) []string {
	var out []string
	for _, a := range attempts {
		var parts []string
		if a.HiddenRestarts > 0 {
			parts = append(parts, fmt.Sprintf("%d hidden", a.HiddenRestarts))
		}
		for _, p := range a.Periods {
			parts = append(parts, fmt.Sprintf("%s %.0f-%.0f", p.Activity, p.Start.Sub(testTime).Seconds(),
				p.End.Sub(testTime).Seconds()))
		}
		if a.End != "" {
			parts = append(parts, "ended by "+a.End)
		}
		out = append(out, strings.Join(parts, ", "))
	}
	return out
}

func TestListAttempts(t *testing.T) {
	at := func(seconds int) time.Time { return testTime.Add(time.Duration(seconds) * time.Second) }
	restartEvent := func(seconds int) Event {
		return Event{Time: at(seconds), Reason: "GangRestarting", Message: fmt.Sprintf("Restart at %d", seconds)}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "trainer", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: timeAfter(45 * time.Second), FinishedAt: timeAfter(90 * time.Second),
		}}},
	}}}
	for name, c := range map[string]struct {
		gang      Gang
		state     lifecycle.State
		changedAt int
		want      []string
	}{
		"a gang runs in its first attempt": {
			gang: Gang{Phase: lifecycle.Running}, changedAt: 20, want: []string{"starting 0-20, ran 20-100"},
		},
		"a gang was not reconciled": {
			want: []string{"starting 0-100"}, changedAt: 100,
		},
		"a queue admitted the gang late": {
			gang: Gang{Phase: lifecycle.Pending}, changedAt: 30, state: lifecycle.State{
				Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: at(30)},
			},
			want: []string{"suspended 0-30, starting 30-100"},
		},
		"Event and status report the same restart": {
			gang: Gang{Phase: lifecycle.Running, Restarts: 1, Events: []Event{restartEvent(41)}}, changedAt: 60,
			state: lifecycle.State{
				LastRestartTime: at(40), Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: at(50)},
			},
			want: []string{"started or ran 0-41, ended by Restart at 41", "restarting 41-50, starting 50-60, ran 60-100"},
		},
		"the Events of earlier restarts have expired": {
			gang: Gang{
				Phase: lifecycle.Restarting, Restarts: 3, Disruptions: 1,
				FirstFailure: &failure.Failure{Rank: -1, Reason: "OOMKilled"},
			},
			state: lifecycle.State{LastRestartTime: at(80)}, changedAt: 80,
			want: []string{"3 hidden, started or ran 0-80, ended by OOMKilled", "restarting 80-100"},
		},
		"the pods of a failed gang contain when it ran": {
			gang: Gang{
				Phase: lifecycle.Failed, FirstFailure: &failure.Failure{Rank: 0},
				Members: []Member{{Name: "train", Containers: []string{"trainer"}}},
				Ranks:   []Rank{{Member: "train", Object: pod}},
			},
			changedAt: 90, want: []string{"starting 0-45, ran 45-90"},
		},
		"the pods of a gang that succeeded are deleted": {
			gang:      Gang{Phase: lifecycle.Succeeded, Ranks: []Rank{{}}},
			changedAt: 90, want: []string{"started or ran 0-90"},
		},
		"a user suspended the gang": {
			gang: Gang{Phase: lifecycle.Suspended}, changedAt: 70, want: []string{"started or ran 0-70, suspended 70-100"},
		},
		"the clock of the user is late": {
			gang: Gang{Phase: lifecycle.Running}, changedAt: 300, want: []string{"starting 0-100"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.gang.CreationTimestamp, c.gang.state = testTime, c.state
			c.gang.LastTransitionTime = ptr.To(at(c.changedAt))
			if diff := cmp.Diff(c.want, formatAttempts(c.gang.listAttempts(at(100)))); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

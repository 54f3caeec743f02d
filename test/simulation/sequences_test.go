package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// sequence is a named sequence of events with its expected end.
type sequence struct {
	name      string
	shape     shape
	incidents []Incident
	// change changes the other fields of the scenario; nil for none.
	change func(*Scenario)
	want   wantedEnd
}

// wantedEnd is how a sequence ends. All sequences end without a violation.
type wantedEnd struct {
	// phase and the counts are those after nothing has happened for a long time; an empty phase stands for Running.
	phase                 lifecycle.Phase
	restarts, disruptions int32
	// attempt is the number of the attempt at that time, if it is not 0.
	attempt int32
	// reason is the reason at that time, if it is not empty.
	reason gang.Reason
	// end is the phase after all programs have finished; an empty phase stands for Succeeded.
	end lifecycle.Phase
	// text is part of the report of the run.
	text string
}

// at returns an incident. The values are its target and its value.
func at(seconds float64, kind incidentKind, values ...int) Incident {
	values = append(values, 0, 0)
	return Incident{
		At: time.Duration(seconds * float64(time.Second)), Kind: kind, Target: values[0], Value: values[1],
	}
}

// late returns a stream that stops between two times in seconds.
func late(name string, from, to float64) lateStream {
	return lateStream{
		Stream: name, From: time.Duration(from * float64(time.Second)), To: time.Duration(to * float64(time.Second)),
	}
}

// scenario returns the scenario of a sequence, without random delays and faults.
func (s sequence) scenario() Scenario {
	out := Scenario{
		Seed: 1, Shape: s.shape, Ranks: 3, MaxRestarts: 3, PodRestartPolicy: "Never", Incidents: s.incidents,
		Behavior:  behavior{SIGTERMExitCode: 143, SIGTERMDelay: time.Second},
		NodeSkews: []time.Duration{0, 0, 0}, Calm: []string{"*", "faults"},
	}
	if s.change != nil {
		s.change(&out)
	}
	return out
}

// TestSequences runs the sequences of a review, of which 13 ended wrongly, and of its findings. Each sequence also
// runs with random delays, where only the properties count.
func TestSequences(t *testing.T) {
	for _, s := range sequences() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := Run(s.scenario())
			if problems := s.compare(r); len(problems) > 0 {
				t.Errorf("%s\n%s\nquiet: %+v\nend: %+v", strings.Join(problems, "\n"), r.FullReport(), r.Quiet, r.End)
			}
			if testing.Short() {
				return
			}
			for seed := range uint64(2) {
				noisy := s.scenario()
				noisy.Seed, noisy.Calm, noisy.ObservesDrains = seed, nil, false
				if r := Run(noisy); len(r.Violations) > 0 {
					t.Errorf("with random delays: %v\n%s", r.Violations, r.Report())
				}
			}
		})
	}
}

// compare returns how a run differs from the expected end.
func (s sequence) compare(r Result) []string {
	var out []string
	expect := func(name string, want, have any) {
		if want != have {
			out = append(out, fmt.Sprintf("%s: want %v, have %v", name, want, have))
		}
	}
	want := s.want
	if want.phase == "" {
		want.phase = lifecycle.Running
	}
	if want.end == "" {
		want.end = lifecycle.Succeeded
	}
	expect("phase", want.phase, r.Quiet.Phase)
	expect("restarts", want.restarts, r.Quiet.Restarts)
	expect("disruptions", want.disruptions, r.Quiet.Disruptions)
	expect("end", want.end, r.End.Phase)
	if want.attempt > 0 {
		expect("attempt", want.attempt, r.Quiet.Attempt)
	}
	if want.reason != "" {
		expect("reason", want.reason, r.Quiet.Reason)
	}
	if !strings.Contains(r.FullReport(), want.text) {
		out = append(out, "the report does not contain "+want.text)
	}
	for _, v := range r.Violations {
		out = append(out, fmt.Sprintf("violation: %s: %s", v.Property, v.Text))
	}
	return out
}

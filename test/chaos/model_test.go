package chaos

import (
	"maps"
	"slices"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/internal/lifecycle"
)

// model predicts the outcome of a life from the documentation: docs/concepts/lifecycle.md and
// docs/adr/0005-restarts.md. It contains no code of Rollcall.
type model struct {
	life  life
	phase lifecycle.Phase
	// restarts and disruptions count the attempts that an incident ended.
	restarts, disruptions int32
	// succeeded contains the ranks that have succeeded in the current attempt.
	succeeded map[int32]bool
}

func newModel(l life) *model {
	return &model{life: l, phase: lifecycle.Running, succeeded: map[int32]bool{}}
}

// finished reports whether the gang has succeeded or failed.
func (m *model) finished() bool { return m.phase == lifecycle.Succeeded || m.phase == lifecycle.Failed }

// apply changes the model as an incident changes the gang.
func (m *model) apply(i incident) {
	if i.Cause == nodeSlow {
		return
	}
	if !i.isFailure() {
		for _, rank := range i.Ranks {
			m.succeeded[rank] = true
		}
		if m.allSucceeded(0, m.life.Ranks) {
			m.phase = lifecycle.Succeeded
		}
		return
	}
	isDisruption := i.Cause != programExit && i.Cause != programHang
	isFatal := i.Cause == preflightFailure && i.ExitCode == gang.PreflightFatal
	if m.anyJobComplete() || isFatal || !isDisruption && m.restarts >= m.life.MaxRestarts {
		m.phase = lifecycle.Failed // Kubernetes never restarts a complete Job
		return
	}
	if isDisruption {
		m.disruptions++
	} else {
		m.restarts++
	}
	clear(m.succeeded) // a restart includes ranks that have succeeded
}

// running returns the ranks that have not succeeded in the current attempt.
func (m *model) running() []int32 {
	var out []int32
	for rank := range m.life.Ranks {
		if !m.succeeded[rank] {
			out = append(out, rank)
		}
	}
	return out
}

// attempts returns the number of attempts before the current one.
func (m *model) attempts() int32 { return m.restarts + m.disruptions }

// finish lets all programs exit with code 0.
func (m *model) finish() {
	if !m.finished() {
		m.phase = lifecycle.Succeeded
	}
}

// anyJobComplete reports whether all ranks of a Job have succeeded.
func (m *model) anyJobComplete() bool {
	if m.life.Kind != twoJobs {
		return false // the gang has succeeded then
	}
	return m.allSucceeded(0, 1) || m.allSucceeded(1, m.life.Ranks)
}

func (m *model) allSucceeded(from, to int32) bool {
	for rank := from; rank < to; rank++ {
		if !m.succeeded[rank] {
			return false
		}
	}
	return true
}

func TestModel(t *testing.T) {
	failure := incident{Cause: podDeletion, Ranks: []int32{0, 1}}
	exit := incident{Cause: programExit, Ranks: []int32{0}, ExitCode: 1}
	success := func(ranks ...int32) incident { return incident{Cause: programExit, Ranks: ranks} }
	for name, c := range map[string]struct {
		life         life
		wantPhase    lifecycle.Phase
		wantRestarts int32
	}{
		"an incident that hits two ranks costs one restart": {
			life:         life{Kind: oneJob, Ranks: 2, MaxRestarts: 3, Incidents: []incident{failure}},
			wantPhase:    lifecycle.Succeeded,
			wantRestarts: 1,
		},
		"a gang without restarts left fails": {
			life:         life{Kind: oneStatefulSet, Ranks: 2, MaxRestarts: 1, Incidents: []incident{exit, exit}},
			wantPhase:    lifecycle.Failed,
			wantRestarts: 1,
		},
		"a rank that succeeded runs again": {
			life:         life{Kind: oneJob, Ranks: 2, MaxRestarts: 1, Incidents: []incident{success(1), failure, success(0)}},
			wantPhase:    lifecycle.Succeeded,
			wantRestarts: 1,
		},
		"a gang with a complete Job cannot restart": {
			life:      life{Kind: twoJobs, Ranks: 3, MaxRestarts: 3, Incidents: []incident{success(0), failure}},
			wantPhase: lifecycle.Failed,
		},
		"a failed preflight check costs no restart": {
			life: life{Kind: oneJob, Ranks: 2, Incidents: []incident{
				{Cause: preflightFailure, Ranks: []int32{0}, ExitCode: gang.PreflightNodeFailed}, success(0, 1),
			}},
			wantPhase:    lifecycle.Succeeded,
			wantRestarts: 1,
		},
		"a preflight check that no node passes fails the gang": {
			life: life{Kind: oneJob, Ranks: 2, MaxRestarts: 3, Incidents: []incident{
				{Cause: preflightFailure, Ranks: []int32{0}, ExitCode: gang.PreflightFatal},
			}},
			wantPhase: lifecycle.Failed,
		},
		"a slow node costs no attempt": {
			life: life{Kind: oneJob, Ranks: 2, Incidents: []incident{
				{Cause: nodeSlow, Ranks: []int32{0}, Duration: minFault}, success(0),
			}},
			wantPhase: lifecycle.Succeeded,
		},
		"a gang with a complete Job can succeed": {
			life:      life{Kind: twoJobs, Ranks: 3, MaxRestarts: 3, Incidents: []incident{success(1, 2)}},
			wantPhase: lifecycle.Succeeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(c.life)
			for _, i := range c.life.Incidents {
				m.apply(i)
			}
			m.finish()
			if m.phase != c.wantPhase || m.attempts() != c.wantRestarts {
				t.Errorf("%s after %d restarts, want %s after %d", m.phase, m.attempts(), c.wantPhase, c.wantRestarts)
			}
		})
	}
}

// TestNewLife checks that a seed determines a life, and that the lives of a run contain every kind of
// workload, every cause and both results.
func TestNewLife(t *testing.T) {
	const seed, lives = 1, 200
	for name, faults := range map[string]nodeFaults{"simulated nodes": simulatedFaults, "real nodes": realFaults} {
		t.Run(name, func(t *testing.T) {
			got := map[string]bool{}
			for number := range lives {
				l := newLife(seed, number, faults)
				if again := newLife(seed, number, faults); l.String() != again.String() {
					t.Fatalf("the same seed gives %s and %s", l, again)
				}
				m := newModel(l)
				for _, i := range l.Incidents {
					if m.finished() {
						t.Fatalf("%s has an incident after its end", l)
					}
					if i.isNodeFault() != slices.Contains(faults.causes, i.Cause) {
						t.Errorf("%s has the wrong kind of incident", l)
					}
					got[string(i.Cause)] = true
					m.apply(i)
				}
				m.finish()
				got[string(l.Kind)], got[string(m.phase)] = true, true
			}
			want := map[string]bool{
				string(oneJob): true, string(oneStatefulSet): true, string(twoJobs): true,
				string(podDeletion): true, string(podEviction): true, string(programExit): true,
				string(lifecycle.Succeeded): true, string(lifecycle.Failed): true,
			}
			for _, c := range slices.Concat(faults.causes, faults.podCauses) {
				want[string(c)] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("the lives contain %v, want %v", got, want)
			}
		})
	}
}

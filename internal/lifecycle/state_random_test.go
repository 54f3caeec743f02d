package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/testing/podtest"
)

// simulatedGang simulates a Job, its pods and its controllers, as far as they affect the state of
// a gang.
type simulatedGang struct {
	*rand.Rand
	policies gang.RestartRules
	state    lifecycle.State
	now      time.Time
	pods     []simulatedPod
	// countedFailures is the number of failed pods that the Job has counted, and uncountedFailures the
	// number of those that it has not counted yet.
	countedFailures, uncountedFailures                     int32
	suspendedByRollcall, suspendedByUser, complete, failed bool
	// failedInAttempt is true if a rank failed in the current attempt. incidents counts these attempts.
	failedInAttempt bool
	incidents       int32
	log             []string
}

type simulatedPod struct {
	ready, terminating, countedAsFailed bool
	failure                             *failure.Failure
	deletionRequestTime                 time.Time
}

const simulatedGangSize = 3

// takeSnapshot returns a snapshot of the simulated gang.
func (m *simulatedGang) takeSnapshot() lifecycle.Snapshot {
	o := lifecycle.Observation{
		Size:                simulatedGangSize,
		Suspended:           m.suspendedByRollcall || m.suspendedByUser,
		SuspendedByRollcall: m.suspendedByRollcall,
		FailedPods:          m.countedFailures,
		Complete:            m.complete,
		Failed:              m.failed,
	}
	snapshot := lifecycle.Snapshot{Now: m.now}
	for _, p := range m.pods {
		if p.terminating {
			snapshot.PodsTerminating = true
			isTerminatedByRollcall := m.state.Phase == lifecycle.Restarting
			if p.deletionRequestTime.After(m.state.AttemptStartTime) && !isTerminatedByRollcall {
				snapshot.FirstFailure = failure.EarlierOf(snapshot.FirstFailure, &failure.Failure{
					Reason: failure.ReasonPodDeleted,
					Time:   p.deletionRequestTime,
				})
			}
			continue
		}
		o.ActivePods++
		if p.ready {
			o.ReadyPods++
		}
		isOfEarlierAttempt := p.failure != nil && m.state.Attempt > 0 && !p.failure.Time.After(m.state.AttemptStartTime)
		if !isOfEarlierAttempt {
			snapshot.FirstFailure = failure.EarlierOf(snapshot.FirstFailure, p.failure)
		}
	}
	o.SuspensionObserved = o.Suspended && len(m.pods) == 0
	snapshot.Members = lifecycle.NewSingleMember(o)
	snapshot.AllPodsTerminated = snapshot.Members.AllSuspended()
	return snapshot
}

// simulateEvent changes the simulated gang at random and returns a description of the change.
func (m *simulatedGang) simulateEvent() string {
	held := m.suspendedByRollcall || m.suspendedByUser
	switch m.IntN(8) {
	case 0:
		m.now = m.now.Add(time.Duration(m.IntN(30)) * time.Second)
		return "time"
	case 1: // the Job's controller
		switch {
		case m.complete || m.failed:
			m.pods = nil
		case held:
			for i := range m.pods {
				if !m.pods[i].terminating {
					m.pods[i].terminating, m.pods[i].deletionRequestTime = true, m.now
				}
			}
		default:
			for i, p := range m.pods {
				if p.terminating && !p.countedAsFailed { // a suspended Job does not count them
					m.pods[i].countedAsFailed, m.countedFailures = true, m.countedFailures+1
				}
			}
			for len(m.pods) < simulatedGangSize {
				m.pods = append(m.pods, simulatedPod{})
			}
		}
		m.countedFailures, m.uncountedFailures = m.countedFailures+m.uncountedFailures, 0
		return "controller"
	case 2: // the kubelet
		var left []simulatedPod
		for _, p := range m.pods {
			if !p.terminating || m.IntN(2) == 0 {
				p.ready = !p.terminating
				left = append(left, p)
			}
		}
		m.pods = left
		return "kubelet"
	case 3, 4, 5:
		return m.simulateFailure()
	case 6:
		if m.IntN(4) > 0 || m.suspendedByRollcall || m.state.Phase == lifecycle.Restarting {
			return "nothing"
		}
		m.suspendedByUser = !m.suspendedByUser
		return fmt.Sprintf("suspended by user: %v", m.suspendedByUser)
	default:
		if m.state.Phase == lifecycle.Running && !m.failedInAttempt && !held && m.IntN(10) == 0 {
			m.complete = true
			return "complete"
		}
		return "nothing"
	}
}

// simulateFailure fails a rank. If the pod is deleted at the same time, the failure cannot be
// observed.
func (m *simulatedGang) simulateFailure() string {
	isFinished := m.complete || m.failed || m.state.Phase.Terminal()
	isSuspended := m.suspendedByRollcall || m.suspendedByUser || m.state.Phase == lifecycle.Suspended
	if isFinished || isSuspended || len(m.pods) == 0 {
		return "nothing"
	}
	i := m.IntN(len(m.pods))
	if m.pods[i].terminating {
		return "nothing"
	}
	if !m.failedInAttempt {
		m.failedInAttempt, m.incidents = true, m.incidents+1
	}
	if m.IntN(3) == 0 {
		m.pods = append(m.pods[:i], m.pods[i+1:]...)
		m.uncountedFailures++
		return fmt.Sprintf("pod of rank %d was deleted", i)
	}
	m.pods[i].failure = &failure.Failure{Rank: int32(i), Reason: "Error", ExitCode: 1, Time: m.now}
	return fmt.Sprintf("rank %d failed", i)
}

// applyNextState reconciles the simulated gang and applies the next state.
func (m *simulatedGang) applyNextState(t *testing.T) {
	t.Helper()
	snapshot, before := m.takeSnapshot(), m.state
	m.state = before.Next(m.policies, snapshot)
	if again := m.state.Next(m.policies, m.takeSnapshot()); !cmp.Equal(m.state, again) {
		// A restart without pods that have to terminate ends in the next pass.
		if before.Phase == m.state.Phase || m.state.Phase != lifecycle.Restarting || again.Phase != lifecycle.Pending {
			t.Fatalf("a second pass changed the state:\n%s", cmp.Diff(m.state, again))
		}
	}
	m.checkSeconds(t, before)
	switch {
	case before.Phase == lifecycle.Restarting && m.state.Phase == lifecycle.Pending:
		if !snapshot.AllPodsTerminated || snapshot.Now.Before(before.NextRestartTime) {
			t.Fatalf("resumed when all pods terminated is %v, %s before the end of the back-off",
				snapshot.AllPodsTerminated, before.NextRestartTime.Sub(snapshot.Now))
		}
	case before.Phase.Terminal() && m.state.Phase != before.Phase:
		t.Fatalf("%s became %s", before.Phase, m.state.Phase)
	}
	switch m.state.Phase {
	case lifecycle.Restarting:
		m.suspendedByRollcall = true
	case lifecycle.Failed:
		m.failed = true
	case lifecycle.Pending:
		if m.suspendedByRollcall {
			m.suspendedByRollcall, m.failedInAttempt = false, false
		}
	}
}

// checkSeconds checks that the seconds of the gang are the time since its creation, that they do not depend on when
// they are read, and that no time of an attempt that ended counts as the time of the current attempt.
func (m *simulatedGang) checkSeconds(t *testing.T, before lifecycle.State) {
	t.Helper()
	if m.state.Phase == "" {
		return
	}
	s, last := m.state.Seconds, m.state.LastTransitionTime
	if want := last.Unix() - podtest.CreationTime.Unix(); s.Total() != want {
		t.Fatalf("%s: %d s of %d s are counted: %+v", m.state.Phase, s.Total(), want, s)
	}
	age := m.now.Unix() - podtest.CreationTime.Unix()
	if now := m.state.SecondsAt(m.now).Total(); !m.state.Phase.Terminal() && now != age {
		t.Fatalf("%s: %d s of %d s are counted", m.state.Phase, now, age)
	}
	isNewAttempt := m.state.Phase != lifecycle.Restarting && m.state.Attempt > before.Attempt
	if s.Ran > 0 && (isNewAttempt || m.state.Phase == lifecycle.Failed) {
		t.Fatalf("%s: %d s of the last attempt count as those of the next: %+v", m.state.Phase, s.Ran, s)
	}
}

// TestStateNextRandom checks that one incident causes one restart, whatever happens in whatever
// order.
func TestStateNextRandom(t *testing.T) {
	for seed := range uint64(400) {
		m := &simulatedGang{
			Rand:     rand.New(rand.NewPCG(seed, 1)),
			policies: defaultPolicies,
			now:      podtest.CreationTime,
			state:    lifecycle.State{Bookkeeping: lifecycle.Bookkeeping{AttemptStartTime: podtest.CreationTime}},
		}
		m.policies.MaxRestarts = int32(m.IntN(5))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(m.log, "\n"))
				}
			}()
			for range 300 {
				what := m.simulateEvent()
				if m.IntN(3) > 0 { // one pass may follow several events
					m.applyNextState(t)
				}
				m.log = append(
					m.log,
					fmt.Sprintf(
						"%s: phase %s, %d restarts, suspended by Rollcall %v, %d incidents",
						what,
						m.state.Phase,
						m.state.Restarts,
						m.suspendedByRollcall,
						m.incidents,
					),
				)
				if m.state.Restarts+m.state.Disruptions > m.incidents || m.state.Restarts > m.policies.MaxRestarts {
					t.Fatalf("%d restarts and %d disruptions after %d incidents, %d restarts allowed",
						m.state.Restarts, m.state.Disruptions, m.incidents, m.policies.MaxRestarts)
				}
				if m.state.Phase == lifecycle.Failed && m.incidents != m.policies.MaxRestarts+m.state.Disruptions+1 {
					t.Fatalf("failed after %d incidents, %d restarts allowed", m.incidents, m.policies.MaxRestarts)
				}
			}
		})
	}
}

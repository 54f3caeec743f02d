package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// limitAtRandom limits the disruptions of one of six gangs, changes the policy for the pods of a gang that ended, and
// fills the nodes while a gang has a schedule timeout.
func (s *Scenario) limitAtRandom(r *rand.Rand) {
	if r.IntN(6) == 0 {
		s.MaxDisruptions = pick(r, []string{"0", "1", "2"})
	}
	s.CleanPodPolicy = pick(r, []string{"", "", "", "", "all", "none"})
	if s.ObservesDrains || r.IntN(4) > 0 {
		return
	}
	if s.Elastic == "" && r.IntN(2) == 0 {
		s.ScheduleTimeout = time.Duration(30+r.IntN(90)) * time.Second
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for i := range 1 + r.IntN(2) {
		at := time.Duration(0)
		if i > 0 || r.IntN(2) == 0 {
			at = time.Duration(r.Int64N(int64(last)))
		}
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: nodesFull, Value: 1 + r.IntN(int(s.Ranks))},
			Incident{At: at + time.Duration(r.IntN(300))*time.Second, Kind: nodesFree})
	}
	sortIncidents(s.Incidents)
}

// prolongAtRandom permits no resize, and repairs no node, in one of four scenarios. In one of four, a Job has a
// deadline, or a queue admits it after no manager has run for a while.
func (s *Scenario) prolongAtRandom(r *rand.Rand) {
	if r.IntN(4) == 0 {
		s.Incidents = slices.DeleteFunc(s.Incidents, func(i Incident) bool {
			return i.Kind == resizesAllowed || i.Kind == nodeReturns || i.Kind == nodeRemoved
		})
	}
	if s.ObservesDrains || r.IntN(4) > 0 {
		return
	}
	if s.Shape != queuedJob {
		s.ActiveDeadline = time.Duration(60+r.IntN(600)) * time.Second
		return
	}
	admission := time.Duration(5+r.IntN(40)) * time.Minute
	for i := range s.Incidents {
		s.Incidents[i].At += admission
	}
	s.StartTimeout = 10 * time.Minute
	s.Incidents = append([]Incident{{At: time.Duration(r.IntN(60)) * time.Second, Kind: managerCrashes}}, s.Incidents...)
	at := admission + time.Duration(r.IntN(240))*time.Second
	if r.IntN(2) == 0 { // the ranks start only after the manager
		at = admission + time.Duration(r.IntN(60))*time.Second
		s.Incidents = append(s.Incidents, Incident{At: admission, Kind: nodesFull, Value: 1},
			Incident{At: at + time.Duration(1+r.IntN(60))*time.Second, Kind: nodesFree})
	}
	s.Incidents = append(s.Incidents, Incident{At: at, Kind: managerStarts})
	sortIncidents(s.Incidents)
}

// meetStrangerAtRandom lets a stranger come before the first status of one of eight gangs of two members.
func (s *Scenario) meetStrangerAtRandom(r *rand.Rand) {
	if len(s.members()) == 1 || s.ObservesDrains || r.IntN(8) > 0 {
		return
	}
	start := time.Duration(40+r.IntN(60)) * time.Second
	s.Incidents = append(s.Incidents, Incident{Kind: nodesFull, Value: 1}, Incident{At: start, Kind: nodesFree},
		Incident{At: time.Duration(r.Int64N(int64(start))), Kind: strangerComes})
	sortIncidents(s.Incidents)
}

// anyExitCode contains the exit codes of all programs that fail, and not those of signals.
const anyExitCode = "1-127"

// endAtRandom makes the exit codes of peers non-retriable in one of eight scenarios. In one of eight, the workers fail
// when their master has finished its work, and one kubelet, perhaps that of the master, reports it a little late.
func (s *Scenario) endAtRandom(r *rand.Rand) {
	if r.IntN(8) == 0 && s.NonRetriable == "" {
		s.NonRetriable = anyExitCode
	}
	if r.IntN(8) > 0 || s.Shape != masterJobs || s.changesLeader() {
		return
	}
	s.Behavior.AbortsAfterMaster = true
	s.Calm = append(s.Calm, "faults", "rollcall-0", "kubelet", "job-controller")
	at := pickTime(r, s.Incidents[len(s.Incidents)-1].At)
	s.Incidents = append(s.Incidents, Incident{At: at, Kind: rankSucceeds})
	sortIncidents(s.Incidents)
	stream := fmt.Sprintf("kubelet/node-%d/status", r.IntN(len(s.NodeSkews)))
	s.Late = append(s.Late, lateStream{Stream: stream, From: at, To: at + 1500*time.Millisecond})
}

// denyResizeAtRandom denies the last resize of one of six StatefulSets permanently. Then a rank fails, and its peers
// wait for it: kubelets run peers that exit again, even if nothing restarts the gang.
func (s *Scenario) denyResizeAtRandom(r *rand.Rand) {
	if s.Shape != oneStatefulSet || r.IntN(6) > 0 {
		return
	}
	s.Behavior.AbortsWithoutPeers, s.Behavior.PeerTimeout = false, 0
	at := s.Incidents[len(s.Incidents)-1].At + time.Duration(r.IntN(60))*time.Second
	s.Incidents = append(s.Incidents, Incident{At: at, Kind: resizesDenied, Value: pick(r, []int{403, 422})},
		Incident{At: at, Kind: setResized, Value: int(s.Ranks) + 1},
		Incident{At: at + time.Duration(15+r.IntN(60))*time.Second, Kind: rankExits, Target: r.IntN(4), Value: 1})
}

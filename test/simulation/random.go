package simulation

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// NewScenario returns a random scenario. The seed determines it.
func NewScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	s := Scenario{
		Seed: seed, Shape: pick(r, shapes), Ranks: int32(2 + r.IntN(3)), MaxRestarts: int32(pick(r, []int{3, 3, 3, 0, 1})),
		RestartPolicy:    pick(r, []string{"", "", "", "", "never"}),
		PodRestartPolicy: pick(r, []string{"Never", "Never", "OnFailure"}),
		Behavior: behavior{
			SIGTERMExitCode:    int32(pick(r, []int{143, 143, 0, 1, -1})),
			SIGTERMDelay:       time.Duration(r.IntN(8000)) * time.Millisecond,
			AbortsWithoutPeers: r.IntN(3) > 0,
		},
	}
	for range 1 + r.IntN(3) {
		s.NodeSkews = append(s.NodeSkews, pick(r, []time.Duration{0, 0, 0, 0, -3 * time.Second, 2 * time.Second}))
	}
	if r.IntN(6) == 0 {
		s.ManagerSkew = pick(r, []time.Duration{
			-2 * time.Minute, -1900 * time.Millisecond, 1900 * time.Millisecond, 90 * time.Second, 10 * time.Minute,
		})
	}
	if r.IntN(8) == 0 {
		s.NonRetriable = "99"
	}
	if r.IntN(5) == 0 {
		s.StartTimeout = 10 * time.Minute
	}
	if r.IntN(5) == 0 {
		s.TTL = time.Duration(1+r.IntN(100)) * time.Second
	}
	s.Incidents = newIncidents(r, s)
	extra := rand.New(rand.NewPCG(seed, 2)) // the other numbers stay those of earlier builds
	s.WithoutRules = extra.IntN(4) > 0
	s.WaitsForLostNodes = rand.New(rand.NewPCG(seed, 3)).IntN(4) == 0
	if s.Shape == oneStatefulSet {
		s.resizeAtRandom(extra)
	}
	s.breakNodesAtRandom(rand.New(rand.NewPCG(seed, 4)))
	s.restartNodesAtRandom(rand.New(rand.NewPCG(seed, 5)))
	s.terminateByKubeletAtRandom(rand.New(rand.NewPCG(seed, 6)))
	timeouts := []time.Duration{0, 10 * time.Second, 35 * time.Second, time.Minute}
	s.Behavior.PeerTimeout = pick(rand.New(rand.NewPCG(seed, 7)), timeouts)
	if counts := rand.New(rand.NewPCG(seed, 9)); s.Shape == oneJob && counts.IntN(4) == 0 {
		s.SucceededCount = 1 + int32(counts.IntN(int(s.Ranks)))
	}
	s.updateAtRandom(rand.New(rand.NewPCG(seed, 10)))
	s.observeDrainsAtRandom(rand.New(rand.NewPCG(seed, 11)))
	s.holdPodsAtRandom(rand.New(rand.NewPCG(seed, 12)))
	s.suspendSetsAtRandom(rand.New(rand.NewPCG(seed, 13)))
	s.limitAtRandom(rand.New(rand.NewPCG(seed, 14)))
	s.prolongAtRandom(rand.New(rand.NewPCG(seed, 15)))
	// A new leader does not know the ranks that completed within the seconds before. An elastic gang does not restart
	// if a slow manager misses a success, because the kubelet reports only the last exit.
	s.restartControllersAtRandom(rand.New(rand.NewPCG(seed, 16)))
	s.meetStrangerAtRandom(rand.New(rand.NewPCG(seed, 17)))
	s.endAtRandom(rand.New(rand.NewPCG(seed, 18)))
	s.denyResizeAtRandom(rand.New(rand.NewPCG(seed, 19)))
	s.Behavior.FailsWhenRunAgain = !s.changesLeader() && s.Elastic == "" && rand.New(rand.NewPCG(seed, 8)).IntN(2) == 0
	if s.Behavior.FailsWhenRunAgain && s.hasStatefulSet() { // docs/tasks/configure-completion.md
		s.Calm = append(s.Calm, "rollcall-0", "kubelet")
	}
	return s
}

// restartNodesAtRandom restarts nodes in one of four scenarios, faster than Kubernetes notices that they are lost.
func (s *Scenario) restartNodesAtRandom(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for range 1 + r.IntN(2) {
		at := pickTime(r, last)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: nodeRestarts, Target: r.IntN(4), Value: 5 + r.IntN(40)})
	}
	sortIncidents(s.Incidents)
}

// terminateByKubeletAtRandom lets kubelets terminate pods in one of four scenarios. In one of four, Jobs whose pods
// never restart ignore disruptions.
func (s *Scenario) terminateByKubeletAtRandom(r *rand.Rand) {
	s.IgnoresDisruptions = r.IntN(4) == 0 && s.PodRestartPolicy == "Never"
	if r.IntN(4) > 0 {
		return
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for range 1 + r.IntN(2) {
		at := pickTime(r, last)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: podTerminated, Target: r.IntN(4), Value: r.IntN(4)})
	}
	sortIncidents(s.Incidents)
}

// breakNodesAtRandom makes one of three gangs avoid nodes, and adds incidents of nodes and devices that are bad.
func (s *Scenario) breakNodesAtRandom(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	s.AvoidsNodes = true
	last := s.Incidents[len(s.Incidents)-1].At
	for range r.IntN(3) {
		at, target := pickTime(r, last), r.IntN(4)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: nodeBreaks, Target: target},
			Incident{At: at + time.Duration(r.IntN(300))*time.Second, Kind: nodeRepaired, Target: target})
	}
	sortIncidents(s.Incidents)
}

// resizeAtRandom adds resizes to a scenario of one StatefulSet, some of which a policy denies for some time. One of
// four gangs is elastic.
func (s *Scenario) resizeAtRandom(r *rand.Rand) {
	if r.IntN(4) == 0 {
		s.Elastic = "1:5"
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for range r.IntN(3) {
		at := pickTime(r, last)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: setResized, Value: 1 + r.IntN(5)})
		if r.IntN(3) == 0 {
			end := at + time.Duration(r.IntN(120))*time.Second
			s.Incidents = append(s.Incidents, Incident{At: at, Kind: resizesDenied, Value: pick(r, []int{403, 422})},
				Incident{At: end, Kind: resizesAllowed})
			if r.IntN(2) == 0 {
				exit := Incident{At: at + time.Duration(10+r.IntN(110))*time.Second, Kind: rankExits, Target: r.IntN(4), Value: 1}
				s.Incidents = append(s.Incidents, exit)
			}
		}
	}
	for range r.IntN(2) {
		at, target := pickTime(r, last), r.IntN(4)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: deviceFails, Target: target},
			Incident{At: at + time.Duration(r.IntN(30))*time.Second, Kind: deviceRecovers, Target: target})
	}
	sortIncidents(s.Incidents)
}

// updateAtRandom changes the template of one of four StatefulSets. One of two has the update strategy OnDelete.
func (s *Scenario) updateAtRandom(r *rand.Rand) {
	s.ReplacesOnDelete = r.IntN(2) == 0
	if s.Shape != oneStatefulSet || r.IntN(4) > 0 {
		return
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for range 1 + r.IntN(2) {
		at := pickTime(r, last)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: setUpdated})
	}
	sortIncidents(s.Incidents)
}

// observeDrainsAtRandom lets nothing but failures and disruptions happen to the Jobs of one of eight scenarios, while a
// manager that is never late observes them. The ranks need a second for their checkpoints, and exit with code 0.
func (s *Scenario) observeDrainsAtRandom(r *rand.Rand) {
	if r.IntN(8) > 0 || s.Shape == oneStatefulSet || s.Shape == queuedJob {
		return
	}
	s.ObservesDrains = true
	s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay = 0, max(s.Behavior.SIGTERMDelay, time.Second)
	s.Calm = []string{"faults", "rollcall-0"}
	s.Incidents = slices.DeleteFunc(s.Incidents, func(i Incident) bool {
		return !slices.Contains([]incidentKind{rankExits, podEvicted, podDeleted, nodeDrained}, i.Kind)
	})
	at := 30*time.Second + time.Duration(r.Int64N(int64(5*time.Minute)))
	s.Incidents = append(s.Incidents, Incident{At: at, Kind: podEvicted, Value: int(s.Ranks)})
	sortIncidents(s.Incidents)
}

// holdPodsAtRandom adds finalizers to pods in one of six scenarios.
func (s *Scenario) holdPodsAtRandom(r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	last := s.Incidents[len(s.Incidents)-1].At
	for range 1 + r.IntN(2) {
		at := pickTime(r, last)
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: podHeld, Target: r.IntN(4)},
			Incident{At: at + time.Duration(r.IntN(400))*time.Second, Kind: podsReleased})
	}
	sortIncidents(s.Incidents)
}

// suspendSetsAtRandom scales one of three StatefulSets to 0 and back.
func (s *Scenario) suspendSetsAtRandom(r *rand.Rand) {
	if s.Shape != oneStatefulSet || r.IntN(3) > 0 {
		return
	}
	last := s.Incidents[len(s.Incidents)-1].At
	at := pickTime(r, last)
	s.Incidents = append(s.Incidents, Incident{At: at, Kind: userSuspends},
		Incident{At: at + time.Duration(r.IntN(300))*time.Second, Kind: userResumes})
	sortIncidents(s.Incidents)
}

// restartControllersAtRandom restarts kube-controller-manager in one of four scenarios, mostly within seconds after
// something else.
func (s *Scenario) restartControllersAtRandom(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	for range 1 + r.IntN(3) {
		at := pick(r, s.Incidents).At + time.Duration(r.IntN(3000))*time.Millisecond
		s.Incidents = append(s.Incidents, Incident{At: at, Kind: controllersRestart})
	}
	sortIncidents(s.Incidents)
}

// sortIncidents sorts incidents by time. Those of the same time keep their order.
func sortIncidents(incidents []Incident) {
	slices.SortStableFunc(incidents, func(a, b Incident) int { return cmp.Compare(a.At, b.At) })
}

// pickTime returns a time between the start of a gang and a few seconds after its last incident.
func pickTime(r *rand.Rand, last time.Duration) time.Duration {
	return 20*time.Second + time.Duration(r.Int64N(int64(last)))
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// randomKinds are the incidents of random scenarios. Each that breaks something is followed by its repair.
var randomKinds = []incidentKind{
	rankExits, rankExits, rankStalls, rankSucceeds, podEvicted, podDeleted, nodeDrained, nodeLost, userSuspends,
	queuePreempts,
	queuePreempts, memberDeleted, setResized, strangerComes, managerCrashes, managerCrashes, crashInPass, managerStarts,
	webhookDown, writesDenied, podRemoved,
}

// newIncidents returns random incidents, in bursts: most bugs need several things within a few seconds.
func newIncidents(r *rand.Rand, s Scenario) []Incident {
	var out []Incident
	at := 30 * time.Second
	if s.Shape == queuedJob {
		out = append(out, Incident{At: time.Duration(r.IntN(100)) * time.Second, Kind: queueAdmits})
	}
	for range 1 + r.IntN(5) {
		at += time.Duration(r.IntN(240)) * time.Second
		for range 1 + r.IntN(3) {
			at += time.Duration(r.IntN(4000)) * time.Millisecond
			out = append(out, newIncident(r, s, at)...)
		}
	}
	sortIncidents(out)
	return out
}

// newIncident returns an incident and its repair.
func newIncident(r *rand.Rand, s Scenario, at time.Duration) []Incident {
	i := Incident{At: at, Kind: pick(r, randomKinds), Target: r.IntN(4)}
	repair := func(kind incidentKind, most time.Duration) []Incident {
		fixed := i
		fixed.Kind, fixed.At = kind, at+time.Duration(r.Int64N(int64(most)))
		return []Incident{i, fixed}
	}
	switch i.Kind {
	case rankExits:
		i.Value = pick(r, []int{1, 1, 3, 137, 99})
	case podEvicted:
		i.Value = 1 + r.IntN(int(s.Ranks))
	case nodeLost:
		return repair(pick(r, []incidentKind{nodeReturns, nodeRemoved}), 5*time.Minute)
	case userSuspends:
		return repair(userResumes, 5*time.Minute)
	case queuePreempts:
		return repair(queueAdmits, 5*time.Minute)
	case memberDeleted:
		return repair(memberCreated, time.Minute)
	case setResized:
		i.Kind = podEvicted // only the sizes of gangs of one StatefulSet change; see resizeAtRandom
	case managerCrashes, crashInPass:
		i.Value = r.IntN(6)
		out := repair(managerStarts, 90*time.Second)
		out[1].Value = 1
		return out
	case managerStarts:
		i.Value = 1 + r.IntN(10)
	case webhookDown:
		return repair(webhookUp, time.Minute)
	case writesDenied:
		return repair(writesAllowed, 3*time.Minute)
	}
	return []Incident{i}
}

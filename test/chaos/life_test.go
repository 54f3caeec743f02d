package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rollcall.training/gang"
)

// kind is the kind of the workloads of a gang.
type kind string

const (
	oneJob         kind = "Job"
	oneStatefulSet kind = "StatefulSet"
	// twoJobs is a master with rank 0 and workers with all other ranks.
	twoJobs kind = "two Jobs"
)

// cause is what happens to ranks in an incident.
type cause string

const (
	podDeletion cause = "deletion"
	podEviction cause = "eviction"
	programExit cause = "exit"
	// programHang makes a program on a real node stop writing its progress file.
	programHang cause = "hang"
	// deviceFault makes the device of a pod on a simulated node unhealthy.
	deviceFault cause = "unhealthy device"
	// preflightFailure makes the preflight check of a pod on a simulated node exit.
	preflightFailure cause = "failed preflight check"
	// nodeLoss deletes a simulated node.
	nodeLoss cause = "node loss"
	// The faults of real nodes (test/cluster/node_faults.go).
	nodeKill  cause = "node kill"
	nodeCut   cause = "node cut"
	nodeStop  cause = "node stop"
	nodeDrain cause = "node drain"
	nodeSlow  cause = "slow node"
)

// nodeFaults are the faults that the nodes of a cluster support.
type nodeFaults struct {
	// causes are those that hit all pods of a node.
	causes []cause
	// podCauses are those that hit some pods, in addition to deletions, evictions and exits.
	podCauses []cause
	// odds is the number of incidents for each fault.
	odds int
	// shared is true if gangs share nodes, so that a fault also hits the gangs of other lives.
	shared bool
}

var (
	simulatedFaults = nodeFaults{causes: []cause{nodeLoss}, podCauses: []cause{deviceFault, preflightFailure}, odds: 12}
	realFaults      = nodeFaults{
		causes: []cause{nodeKill, nodeCut, nodeStop, nodeDrain, nodeSlow}, podCauses: []cause{programHang},
		odds: 6, shared: true,
	}
)

// minFault and maxFault bound how long a fault of a real node lasts after it had its effect.
const minFault, maxFault = 10 * time.Second, 50 * time.Second

// incident happens to some ranks of one attempt at the same time.
type incident struct {
	Cause cause
	// ExitCode is the exit code of programExit and preflightFailure.
	ExitCode int32
	// Ranks are the ranks that are hit, in ascending order.
	Ranks []int32
	// Duration is how long a fault of a real node lasts after it had its effect.
	Duration time.Duration
	// Early is true if the incident happens as soon as its ranks have pods. Otherwise, it happens when
	// all ranks are ready.
	Early bool
}

func (i incident) String() string {
	out := i.name()
	if i.Early {
		out = "early " + out
	}
	if i.Duration > 0 {
		out += fmt.Sprintf(" for %d s", int(i.Duration.Seconds()))
	}
	return fmt.Sprintf("%s of ranks %v", out, i.Ranks)
}

// name returns the cause and the exit code, if there is one.
func (i incident) name() string {
	if i.Cause == programExit || i.Cause == preflightFailure {
		return fmt.Sprintf("%s %d", i.Cause, i.ExitCode)
	}
	return string(i.Cause)
}

// isNodeFault reports whether the incident hits all pods of the node of its rank.
func (i incident) isNodeFault() bool { return i.Cause == nodeLoss || i.Duration > 0 }

// isFailure reports whether the incident fails the attempt.
func (i incident) isFailure() bool {
	return i.Cause != nodeSlow && (i.Cause != programExit || i.ExitCode != 0)
}

// life is one gang and everything that happens to it. After the incidents, all programs that still run
// exit with code 0.
type life struct {
	Name        string
	Kind        kind
	Ranks       int32
	MaxRestarts int32
	// RestartsInPlace is true if the kubelet restarts a failed container of a Job in its pod.
	RestartsInPlace bool
	Incidents       []incident
}

func (l life) String() string {
	var incidents []string
	for _, i := range l.Incidents {
		incidents = append(incidents, i.String())
	}
	inPlace := ""
	if l.RestartsInPlace {
		inPlace = ", restarts in place"
	}
	return fmt.Sprintf("%s: %s of %d ranks, %d restarts allowed%s: %s",
		l.Name, l.Kind, l.Ranks, l.MaxRestarts, inPlace, strings.Join(incidents, "; "))
}

// has reports whether an incident has one of the causes.
func (l life) has(causes ...cause) bool {
	return slices.ContainsFunc(l.Incidents, func(i incident) bool { return slices.Contains(causes, i.Cause) })
}

// newLife returns the life with a number in the run with a seed, in a cluster whose nodes have faults.
func newLife(seed uint64, number int, faults nodeFaults) life {
	random := rand.New(rand.NewPCG(seed, uint64(number))) // the seed must repeat the run
	l := life{
		Name:            fmt.Sprintf("life-%d", number),
		Kind:            pick(random, oneJob, oneJob, oneStatefulSet, twoJobs),
		Ranks:           2 + random.Int32N(3),
		MaxRestarts:     random.Int32N(4),
		RestartsInPlace: random.IntN(2) == 0,
	}
	m := newModel(l)
	for range 1 + random.IntN(3) {
		if m.finished() {
			break
		}
		i := newIncident(random, m, faults)
		l.Incidents = append(l.Incidents, i)
		m.apply(i)
	}
	return l
}

// newIncident returns an incident that hits only ranks that still run.
func newIncident(random *rand.Rand, m *model, faults nodeFaults) incident {
	running := m.running()
	random.Shuffle(len(running), func(a, b int) { running[a], running[b] = running[b], running[a] })
	causes := slices.Concat([]cause{podDeletion, podEviction, programExit, programExit}, faults.podCauses)
	i := incident{Cause: pick(random, causes...)}
	if random.IntN(faults.odds) == 0 {
		i.Cause = pick(random, faults.causes...)
	}
	count := 1 + random.IntN(len(running))
	switch i.Cause {
	case programExit:
		i.ExitCode = pick[int32](random, 0, 1, 137, 143)
		if i.ExitCode == 0 { // the gang succeeds at the end of its life
			count = min(1, len(running)-1)
			if faults.shared && m.life.Kind == twoJobs {
				count = 0 // a fault of another life would fail a gang with a complete Job, or come too late
			}
		}
		if count == 0 {
			i.ExitCode, count = 1, 1
		}
	case preflightFailure:
		i.ExitCode = pick[int32](random, gang.PreflightNodeFailed, gang.PreflightNodeFailed, gang.PreflightFatal)
	case nodeLoss:
		count = 1
	case nodeKill, nodeCut, nodeStop, nodeDrain, nodeSlow:
		count, i.Duration = 1, minFault+time.Duration(random.Int64N(int64(maxFault-minFault)))
	case podDeletion:
		// A StatefulSet replaces a pod that was not ready yet within milliseconds. Whether Rollcall
		// observes that makes no difference to the ranks, so the model does not predict it.
		i.Early = m.life.Kind != oneStatefulSet && len(m.succeeded) == 0 && random.IntN(4) == 0
	}
	i.Ranks = running[:count]
	slices.Sort(i.Ranks)
	return i
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

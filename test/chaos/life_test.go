package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	nodeLoss    cause = "node loss"
)

// incident happens to some ranks of one attempt at the same time.
type incident struct {
	Cause cause
	// ExitCode is the exit code of programExit.
	ExitCode int32
	// Ranks are the ranks that are hit, in ascending order.
	Ranks []int32
	// Early is true if the incident happens as soon as its ranks have pods. Otherwise, it happens when
	// all ranks are ready.
	Early bool
}

func (i incident) String() string {
	out := string(i.Cause)
	if i.Cause == programExit {
		out += fmt.Sprintf(" %d", i.ExitCode)
	}
	if i.Early {
		out = "early " + out
	}
	return fmt.Sprintf("%s of ranks %v", out, i.Ranks)
}

// isFailure reports whether the incident fails the attempt.
func (i incident) isFailure() bool { return i.Cause != programExit || i.ExitCode != 0 }

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

// losesNode reports whether a node is lost, so that the life needs its own nodes.
func (l life) losesNode() bool {
	return slices.ContainsFunc(l.Incidents, func(i incident) bool { return i.Cause == nodeLoss })
}

// newLife returns the life with a number in the run with a seed. Without nodes that can be lost, no node
// is lost.
func newLife(seed uint64, number int, canLoseNodes bool) life {
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
		i := newIncident(random, m, canLoseNodes)
		l.Incidents = append(l.Incidents, i)
		m.apply(i)
	}
	return l
}

// newIncident returns an incident that hits only ranks that still run.
func newIncident(random *rand.Rand, m *model, canLoseNodes bool) incident {
	var running []int32
	for rank := range m.life.Ranks {
		if !m.succeeded[rank] {
			running = append(running, rank)
		}
	}
	random.Shuffle(len(running), func(a, b int) { running[a], running[b] = running[b], running[a] })
	i := incident{Cause: pick(random, podDeletion, podEviction, programExit, programExit)}
	if canLoseNodes && random.IntN(12) == 0 {
		i.Cause = nodeLoss
	}
	count := 1 + random.IntN(len(running))
	switch i.Cause {
	case programExit:
		i.ExitCode = pick[int32](random, 0, 1, 137, 143)
		if i.ExitCode == 0 { // the gang succeeds at the end of its life
			count = min(1, len(running)-1)
		}
		if count == 0 {
			i.ExitCode, count = 1, 1
		}
	case nodeLoss:
		count = 1
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

package lifecycle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rollcall.training/gang"
)

const (
	// suspectNamespaces is the number of namespaces whose gangs failed first on a node that make it a suspect.
	suspectNamespaces = 2
	// maxSuspectNodes is the maximum number of suspects.
	maxSuspectNodes = 8
	// maxLedgerNamespaces is the maximum number of namespaces in a ledger, with at most [maxFailedNodes] nodes each.
	maxLedgerNamespaces = 512
	// maxFutureTime is how far the clock of a node may be ahead.
	maxFutureTime = time.Minute
)

// NodeFailure is a first failure that the hardware of a node caused, or may have caused.
type NodeFailure struct {
	Node string
	Time time.Time
	// IsHardware is true if the hardware caused the failure.
	IsHardware bool
}

// NodeFailures returns the last first failure of the gang, if the hardware of its node may have caused it, and the
// failures in FailedNodes that the hardware caused.
func (s State) NodeFailures() []NodeFailure {
	var out []NodeFailure
	for _, n := range s.FailedNodes {
		if n.Reason != "" {
			out = append(out, NodeFailure{n.Name, n.LastFailureTime, true})
		}
	}
	f := s.FirstFailure
	isHardware := f.IsHardwareFault()
	isFatal := f.IsFailedPreflight() && f.ExitCode == gang.PreflightFatal // on any node
	isKnown := func(n NodeFailure) bool { return n.Node == f.Node }
	if !isFatal && (isHardware || f.MayBeHardwareFault()) && gang.CanExcludeNode(f.Node) &&
		!slices.ContainsFunc(out, isKnown) {
		out = append(out, NodeFailure{f.Node, f.Time, isHardware})
	}
	return out
}

// NodeLedger contains the nodes on which gangs failed first, by namespace and node. A node that the gangs of two
// namespaces report within [AvoidancePeriod] is a suspect. Users choose what their gangs report, so a namespace has one
// vote for each node, and a bounded number of them. The zero value is empty. A NodeLedger is not safe for concurrent
// use.
type NodeLedger map[string]map[string]nodeVote

// nodeVote is the last failure on a node in a namespace.
type nodeVote struct {
	time       time.Time
	gang       string
	isHardware bool
}

// isCurrent reports whether the vote counts at a time. The time of a vote may come from a user.
func (v nodeVote) isCurrent(now time.Time) bool {
	age := now.Sub(v.time)
	return age < AvoidancePeriod && age >= -maxFutureTime
}

// Record records the failures of a gang, which its UID identifies, and reports whether the ledger has changed. It
// ignores failures that it contains. A gang that failed first on another node since withdraws its vote, unless the
// hardware caused the failure: a program with a defect fails on any node.
func (l *NodeLedger) Record(namespace, uid string, failures []NodeFailure, now time.Time) bool {
	isChanged := false
	for _, f := range failures {
		vote, votes := nodeVote{f.Time, uid, f.IsHardware}, (*l)[namespace]
		last := votes[f.Node]
		isOlder := !f.Time.After(last.time) || last.isHardware && !f.IsHardware && last.isCurrent(now)
		if !vote.isCurrent(now) || isOlder {
			continue
		}
		if votes == nil {
			votes = l.addNamespace(namespace)
		}
		maps.DeleteFunc(votes, func(_ string, v nodeVote) bool {
			return !v.isCurrent(now) || !f.IsHardware && v.gang == uid && !v.isHardware && v.time.Before(f.Time)
		})
		votes[f.Node] = vote
		if len(votes) > maxFailedNodes {
			delete(votes, findOldest(votes, func(v nodeVote) time.Time { return v.time }))
		}
		_, isKept := votes[f.Node]
		isChanged = isChanged || isKept
	}
	return isChanged
}

// addNamespace adds a namespace, instead of the one that has voted least recently if there are too many.
func (l *NodeLedger) addNamespace(namespace string) map[string]nodeVote {
	if *l == nil {
		*l = NodeLedger{}
	}
	if len(*l) >= maxLedgerNamespaces {
		delete(*l, findOldest(*l, lastVoteTime))
	}
	(*l)[namespace] = map[string]nodeVote{}
	return (*l)[namespace]
}

func lastVoteTime(votes map[string]nodeVote) time.Time {
	var out time.Time
	for _, v := range votes {
		if v.time.After(out) {
			out = v.time
		}
	}
	return out
}

// findOldest returns the key of a map whose value has the earliest time.
func findOldest[V any](m map[string]V, timeOf func(V) time.Time) string {
	var oldest string
	var earliest time.Time
	for key, value := range m {
		if t := timeOf(value); oldest == "" || t.Before(earliest) || t.Equal(earliest) && key < oldest {
			oldest, earliest = key, t
		}
	}
	return oldest
}

// Suspects returns the names of the suspects in alphabetical order: those with the most votes if there are too many.
func (l NodeLedger) Suspects(now time.Time) []string {
	votes, last := map[string]int{}, map[string]time.Time{}
	for _, byNode := range l {
		for node, v := range byNode {
			if !v.isCurrent(now) {
				continue
			}
			votes[node]++
			if v.time.After(last[node]) {
				last[node] = v.time
			}
		}
	}
	maps.DeleteFunc(votes, func(_ string, n int) bool { return n < suspectNamespaces })
	suspects := slices.SortedFunc(maps.Keys(votes), func(a, b string) int {
		return cmp.Or(cmp.Compare(votes[b], votes[a]), last[b].Compare(last[a]), cmp.Compare(a, b))
	})
	suspects = suspects[:min(len(suspects), maxSuspectNodes)]
	slices.Sort(suspects)
	return suspects
}

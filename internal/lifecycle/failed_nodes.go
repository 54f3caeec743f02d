package lifecycle

import (
	"slices"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
)

// FailedNode is a node on which a rank failed first. It is part of the status annotation; docs/reference/status.md
// describes its fields for users.
type FailedNode struct {
	// Name is the name of the node.
	Name string `json:"name"`
	// Failures is the number of first failures on the node.
	Failures int32 `json:"failures"`
	// Reason is the reason of the last failure that the hardware caused; empty if there was none.
	Reason string `json:"reason,omitempty"`
	// LastFailureTime is the time of the last first failure on the node.
	LastFailureTime time.Time `json:"lastFailureTime"`
	// Avoided is true if the gang avoids the node.
	Avoided bool `json:"avoided,omitempty"`
	// ReleaseTime is when the gang stopped avoiding the node because ranks had no node; zero if it did not.
	ReleaseTime time.Time `json:"releaseTime,omitzero"`
}

const (
	// AvoidancePeriod is how long after its last failure a node is remembered.
	AvoidancePeriod = 24 * time.Hour
	// maxAvoidedNodes is the maximum number of nodes that a gang avoids. Rollcall does not read nodes, so it cannot
	// know a share of them.
	maxAvoidedNodes = 4
	// maxFailedNodes is the maximum number of nodes in a status.
	maxFailedNodes = 8
	// suspectFailures is the number of first failures on a node after which the gang avoids the node.
	suspectFailures = 2
	// releaseDelay is how long ranks of a gang that avoids nodes wait for a node, before the gang stops avoiding one.
	releaseDelay = 5 * time.Minute
)

// AvoidedNodes returns the names of the nodes that the next attempt avoids, in the order of their failures.
func (s State) AvoidedNodes() []string {
	var out []string
	for _, n := range s.FailedNodes {
		if n.Avoided {
			out = append(out, n.Name)
		}
	}
	return out
}

// canAvoidNodes reports whether a gang can avoid nodes. The template of a StatefulSet does not change.
func canAvoidNodes(policies gang.RestartRules, members Members) bool {
	isStatefulSet := func(m MemberState) bool { return m.Observed.IsStatefulSet }
	return policies.RestartPolicy == gang.RestartPolicyGang && !slices.ContainsFunc(members, isStatefulSet)
}

// recordFailedNode records the node of the first failure when the attempt after it is about to start. Before, an
// earlier failure can be reported. Nodes that did not fail for [AvoidancePeriod] are forgotten. A gang that does not
// avoid nodes avoids those of failed preflight checks, which the user has asked for.
func (s State) recordFailedNode(policies gang.RestartRules, snapshot Snapshot) State {
	if !canAvoidNodes(policies, snapshot.Members) {
		s.FailedNodes = nil
		return s
	}
	nodes := slices.DeleteFunc(slices.Clone(s.FailedNodes), func(n FailedNode) bool {
		isDisabled := !policies.AvoidNodes && n.Reason != failure.ReasonPreflightFailed
		return isDisabled || !snapshot.Now.Before(n.LastFailureTime.Add(AvoidancePeriod))
	})
	f := s.FirstFailure
	isHardware := f.IsHardwareFault()
	mayRecord := f.IsFailedPreflight() || policies.AvoidNodes && (isHardware || f.MayBeHardwareFault())
	if mayRecord && gang.CanExcludeNode(f.Node) {
		node := FailedNode{Name: f.Node}
		if i := slices.IndexFunc(nodes, func(n FailedNode) bool { return n.Name == f.Node }); i >= 0 {
			node = nodes[i]
			nodes = slices.Delete(nodes, i, i+1)
		}
		if f.Time.After(node.LastFailureTime) { // a repeated start has the same first failure
			node.Failures, node.LastFailureTime = min(node.Failures+1, maxCount), f.Time
		}
		if isHardware {
			node.Reason = f.Reason
		}
		node.Avoided = (isHardware || node.Failures >= suspectFailures) && node.ReleaseTime.IsZero()
		nodes = append(nodes, node)
	}
	s.FailedNodes = limitFailedNodes(nodes)
	return s
}

// limitFailedNodes returns nodes without the oldest beyond the limits. The last node is the newest.
func limitFailedNodes(nodes []FailedNode) []FailedNode {
	nodes = nodes[max(0, len(nodes)-maxFailedNodes):]
	avoided := 0
	for i := range slices.Backward(nodes) {
		if nodes[i].Avoided {
			avoided++
			nodes[i].Avoided = avoided <= maxAvoidedNodes
		}
	}
	return nodes
}

// mustReleaseNode reports whether ranks have waited so long for a node that the gang has to stop avoiding one.
// Nobody knows whether the ranks would have a node otherwise. A start timeout that expires while ranks wait for a node
// is not a failure of the program.
func (s State) mustReleaseNode(policies gang.RestartRules, snapshot Snapshot) bool {
	deadline := s.releaseDeadline(policies, snapshot)
	return snapshot.isPast(deadline) || !deadline.IsZero() && s.isStartTimeoutExceeded(policies, snapshot)
}

// releaseDeadline returns when the gang stops avoiding a node if its ranks still wait for theirs; zero if none waits.
func (s State) releaseDeadline(policies gang.RestartRules, snapshot Snapshot) time.Time {
	members, p := snapshot.Members, snapshot.Placement
	if len(s.AvoidedNodes()) == 0 || p.Unbound == 0 || policies.RestartPolicy != gang.RestartPolicyGang ||
		!s.isStarting() || !mayFail(policies, members) || members.anyJobComplete() {
		return time.Time{}
	}
	return p.UnboundSince.Add(releaseDelay)
}

// releaseNode stops avoiding the node that failed first, and starts the attempt again, because only the template of a
// suspended Job can change. The gang does not avoid the node again until it is forgotten.
func (s State) releaseNode(snapshot Snapshot) State {
	s.FailedNodes = slices.Clone(s.FailedNodes)
	i := slices.IndexFunc(s.FailedNodes, func(n FailedNode) bool { return n.Avoided })
	s.FailedNodes[i].Avoided, s.FailedNodes[i].ReleaseTime = false, snapshot.statusTime()
	return s.enterRestarting(snapshot)
}

// releasedNode returns the node that the gang stopped avoiding when the last restart was decided; empty if there is
// none.
func (s State) releasedNode() string {
	for _, n := range s.FailedNodes {
		if !n.ReleaseTime.IsZero() && n.ReleaseTime.Equal(s.LastRestartTime) {
			return n.Name
		}
	}
	return ""
}

// limitNodes limits what a user with permission to patch the workload could write.
func (s State) limitNodes() State {
	isInvalid := func(n FailedNode) bool { return !gang.CanExcludeNode(n.Name) || len(n.Reason) > maxReasonBytes }
	s.FailedNodes = limitFailedNodes(slices.DeleteFunc(s.FailedNodes, isInvalid))
	s.ExcludedNodes = s.ExcludedNodes[:min(len(s.ExcludedNodes), maxAvoidedNodes)]
	s.SuspectNodes = s.SuspectNodes[:min(len(s.SuspectNodes), maxSuspectNodes)]
	return s
}

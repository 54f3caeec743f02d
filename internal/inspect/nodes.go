package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall.training/internal/lifecycle"
)

// NodeFailure is a failure on a node that a gang avoids, or that can make the node a suspect. Its JSON is the output of
// rollcall status --nodes -o json and a stable interface; docs/reference/status.md describes it.
type NodeFailure struct {
	Node string `json:"node"`
	// Suspect is true if gangs of several namespaces failed first on the node; see [lifecycle.NodeLedger].
	Suspect bool `json:"suspect"`
	// Namespace and Gang identify the gang whose rank failed.
	Namespace string    `json:"namespace"`
	Gang      string    `json:"gang"`
	Reason    string    `json:"reason"`
	Time      time.Time `json:"time"`
	// Avoided is true if the gang avoids the node.
	Avoided bool `json:"avoided"`
}

// ListNodeFailures returns the last failure of each gang on each node, ordered by node, namespace and gang. The
// suspects are those that the gangs show. A manager also remembers gangs that were deleted.
func ListNodeFailures(gangs []Gang, now time.Time) []NodeFailure {
	var out []NodeFailure
	var ledger lifecycle.NodeLedger
	for i, g := range gangs {
		failures := g.state.NodeFailures()
		ledger.Record(g.Namespace, strconv.Itoa(i), failures, now)
		for _, n := range g.FailedNodes {
			out = append(out, NodeFailure{
				Node: n.Name, Namespace: g.Namespace, Gang: g.Name, Reason: describeFailedNode(n), Time: n.LastFailureTime,
				Avoided: n.Avoided,
			})
		}
		for _, f := range failures {
			if slices.ContainsFunc(g.FailedNodes, func(n lifecycle.FailedNode) bool { return n.Name == f.Node }) {
				continue
			}
			first := *g.state.FirstFailure
			first.Rank, first.Message = -1, "" // only the cause
			out = append(out, NodeFailure{
				Node: f.Node, Namespace: g.Namespace, Gang: g.Name, Reason: first.String(), Time: f.Time,
			})
		}
	}
	out = slices.DeleteFunc(out, func(f NodeFailure) bool {
		return !f.Avoided && now.Sub(f.Time) >= lifecycle.AvoidancePeriod
	})
	suspects := ledger.Suspects(now)
	for i := range out {
		out[i].Suspect = slices.Contains(suspects, out[i].Node)
	}
	slices.SortStableFunc(out, func(a, b NodeFailure) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Gang, b.Gang))
	})
	return out
}

// PrintNodeFailures prints one line for each failure.
func PrintNodeFailures(out io.Writer, o PrintOptions, failures []NodeFailure) {
	rows := [][]string{{"NODE", "SUSPECT", "NAMESPACE", "GANG", "AVOIDED", "AGE", "REASON"}}
	yes := map[bool]string{true: "yes", false: "-"}
	for _, f := range failures {
		rows = append(rows, []string{
			f.Node, yes[f.Suspect], f.Namespace, f.Gang, yes[f.Avoided], o.formatAge(f.Time), joinLines(f.Reason),
		})
	}
	o.printTable(out, rows)
}

// describeFailedNode returns why a node failed.
func describeFailedNode(n lifecycle.FailedNode) string {
	switch {
	case n.Reason != "":
		return n.Reason
	case n.Failures == 1:
		return "a rank failed first"
	default:
		return fmt.Sprintf("ranks failed first %d times", n.Failures)
	}
}

// formatAvoidedNodes returns the nodes that the gang avoids, why, and until when, such as "Avoids nodes: n1 (failed
// first twice) until Nov 25 12:00". It is empty if there are none.
func (o PrintOptions) formatAvoidedNodes(nodes []lifecycle.FailedNode) string {
	var avoided, released []string
	for _, n := range nodes {
		switch {
		case n.Avoided:
			avoided = append(avoided, fmt.Sprintf("%s (%s) until %s",
				n.Name, describeFailedNode(n), o.formatTime(n.LastFailureTime.Add(lifecycle.AvoidancePeriod))))
		case !n.ReleaseTime.IsZero():
			released = append(released, n.Name)
		}
	}
	var parts []string
	if len(avoided) > 0 {
		parts = append(parts, "Avoids nodes: "+strings.Join(avoided, ", "))
	}
	if len(released) > 0 {
		parts = append(parts, "No longer avoids, because no other node was free: "+strings.Join(released, ", "))
	}
	return strings.Join(parts, ". ")
}

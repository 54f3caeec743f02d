package inspect

import (
	"fmt"
	"strings"

	"rollcall.training/internal/lifecycle"
)

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

package simulation

import "rollcall.training/internal/lifecycle"

// countsDisruptions is true if Rollcall counts disruptions apart from restarts.
const countsDisruptions = true

// disruptionsOf returns the number of disruptions in a status.
func disruptionsOf(s lifecycle.Status) int { return int(s.Disruptions) }

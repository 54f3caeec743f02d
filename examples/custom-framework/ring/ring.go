// Package ring is a framework whose ranks form a ring: each rank sends to the next.
package ring

import (
	"strconv"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// Injector plans the variables of the ring. The zero value is ready to use.
type Injector struct{}

// Framework returns the declaration of the framework.
func (Injector) Framework() gang.Framework {
	return gang.Framework{
		Name: "ring", Roles: []gang.Role{{Name: "worker"}}, DefaultRole: "worker", Port: 7000, PortName: "ring",
	}
}

// Plan returns the variables of a member. Ranks, sizes and addresses are required, so admission denies other
// values. The size of the buffer is a suggestion, so admission keeps other values.
func (Injector) Plan(g gang.Gang) plan.Plan {
	return plan.Plan{Env: []plan.Env{
		plan.FieldEnv("RING_RANK", plan.PodLabelFieldPath(g.RankLabel)).WithMeaning(plan.Rank),
		plan.LiteralEnv("RING_SIZE", strconv.Itoa(int(g.Size))).WithMeaning(plan.PodCount),
		plan.LiteralEnv("RING_FIRST", g.RankFQDN(0)).WithMeaning(plan.Address),
		plan.LiteralEnv("RING_PORT", strconv.Itoa(int(g.Port))).WithMeaning(plan.Port),
		plan.LiteralEnv("RING_BUFFER_BYTES", "1048576").WithPolicy(plan.Suggest),
	}}
}

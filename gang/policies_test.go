package gang_test

import (
	"testing"

	"rollcall.training/gang"
)

func TestCompletesWithFirstPod(t *testing.T) {
	withChief := gang.Framework{
		Name: "flow", DefaultRole: "worker", FirstPodCompletionRole: "worker",
		Roles: []gang.Role{
			{Name: "chief", MaxPods: 1, DeterminesCompletion: true},
			{Name: "worker"},
			{Name: "ps", LongRunning: true},
		},
	}
	workersOnly := gang.Framework{Name: "peers", DefaultRole: "worker", Roles: []gang.Role{{Name: "worker"}}}
	for name, c := range map[string]struct {
		framework     gang.Framework
		successPolicy string
		roles         []string
		wantRole      string // the role that completes with its first pod; empty for none
	}{
		"all ranks must succeed by default": {
			framework: workersOnly, roles: []string{"worker"},
		},
		"rank0 is the first worker": {
			framework: workersOnly, successPolicy: gang.SuccessPolicyRank0, roles: []string{"worker"}, wantRole: "worker",
		},
		"worker 0 replaces an absent chief": {
			framework: withChief, roles: []string{"worker"}, wantRole: "worker",
		},
		"parameter servers do not determine completion": {
			framework: withChief, roles: []string{"worker", "ps"}, wantRole: "worker",
		},
		"chief determines completion": {
			framework: withChief, roles: []string{"chief", "worker"},
		},
		"success policy all": {
			framework: withChief, successPolicy: gang.SuccessPolicyAll, roles: []string{"worker"},
		},
		"success policy with a role requires all of its pods": {
			framework: withChief, successPolicy: "worker", roles: []string{"worker", "ps"},
		},
		"rank0 of several roles is in the first role": {
			framework:     withChief,
			successPolicy: gang.SuccessPolicyRank0,
			roles:         []string{"chief", "worker"},
			wantRole:      "chief",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang.Gang{Framework: c.framework, Policies: gang.Policies{SuccessPolicy: c.successPolicy}}
			for _, role := range c.roles {
				g.Members = append(g.Members, gang.Member{Role: role, WorkloadName: "train-" + role, Size: 2})
			}
			for _, m := range g.Members {
				if got, want := g.CompletesWithFirstPod(m), m.Role == c.wantRole; got != want {
					t.Errorf("CompletesWithFirstPod(%s) = %v, want %v", m.Role, got, want)
				}
			}
		})
	}
}

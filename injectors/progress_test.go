package injectors_test

import (
	"testing"
	"time"

	"rollcall.training/gang"
	"rollcall.training/internal/agent"
)

// TestProbeProgram checks that the probe runs the program that the init container copies. Package gang names it, too,
// because it does not import the agent.
func TestProbeProgram(t *testing.T) {
	rules := gang.StallRules{File: "/f", Timeout: time.Minute, Action: gang.StallReport}
	if got := rules.ProbeCommand()[0]; got != agent.Program {
		t.Errorf("the probe runs %s, want %s", got, agent.Program)
	}
}

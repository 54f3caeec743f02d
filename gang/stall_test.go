package gang_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// TestProbeCommand checks the period and the command of the probe.
func TestProbeCommand(t *testing.T) {
	for name, c := range map[string]struct {
		rules gang.StallRules
		want  []string
	}{
		"the shortest timeout": {
			rules: gang.StallRules{File: "/f", Timeout: 10 * time.Second, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "10s", "1s"},
		},
		"a period in whole seconds": {
			rules: gang.StallRules{File: "/f", Timeout: 19 * time.Second, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "19s", "1s"},
		},
		"the longest period": {
			rules: gang.StallRules{File: "/f", Timeout: time.Hour, Action: gang.StallRestart},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "1h0m0s", "30s"},
		},
		"a report does not wait": {
			rules: gang.StallRules{File: "/f", Timeout: time.Minute, Action: gang.StallReport},
			want:  []string{"/opt/rollcall/agent", "progress", "/f", "1m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.rules.ProbeCommand(); !slices.Equal(got, c.want) {
				t.Errorf("the command is %q, want %q", got, c.want)
			}
		})
	}
}

// TestDescribeStall checks that only the readiness probe of Rollcall describes a stall.
func TestDescribeStall(t *testing.T) {
	newProbe := func(command ...string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}}
	}
	rules := gang.StallRules{File: "/f", Timeout: time.Minute, Action: gang.StallReport}
	want := "Stalled: did not write /f for 1m0s"
	if got := gang.DescribeStall(newProbe(rules.ProbeCommand()...)); got != want {
		t.Errorf("the description is %q, want %q", got, want)
	}
	for name, probe := range map[string]*corev1.Probe{
		"no probe": nil, "no command": {}, "another program": newProbe("cat", "progress", "/f", "1m0s"),
	} {
		if got := gang.DescribeStall(probe); got != "" {
			t.Errorf("%s: the description is %q", name, got)
		}
	}
}

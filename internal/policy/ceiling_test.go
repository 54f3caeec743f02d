package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rollcall.training/internal/policy"
)

func TestWithCeiling(t *testing.T) {
	p := readPolicy(t, "cluster: {limits: {size: {max: 1}, gpus: {max: 1, mode: audit}}}")
	for name, test := range map[string]struct {
		ceiling policy.Mode
		modes   []policy.Mode
	}{
		"enforce changes nothing":             {ceiling: policy.ModeEnforce, modes: []policy.Mode{"enforce", "audit"}},
		"warn limits enforce and keeps audit": {ceiling: policy.ModeWarn, modes: []policy.Mode{"warn", "audit"}},
		"audit limits all":                    {ceiling: policy.ModeAudit, modes: []policy.Mode{"audit", "audit"}},
		"off has no findings":                 {ceiling: policy.ModeOff},
		"an empty ceiling changes nothing":    {modes: []policy.Mode{"enforce", "audit"}},
	} {
		t.Run(name, func(t *testing.T) {
			var modes []policy.Mode
			for _, f := range p.WithCeiling(test.ceiling).Judge(newInput(t, readJob(t, bigJob)))[0].Findings {
				modes = append(modes, f.Mode)
			}
			if diff := cmp.Diff(test.modes, modes, cmpopts.EquateEmpty()); diff != "" {
				t.Error("modes (-want +got):\n" + diff)
			}
		})
	}
	if (*policy.Policy)(nil).WithCeiling(policy.ModeWarn) != nil {
		t.Error("a nil policy with a ceiling is not nil")
	}
}

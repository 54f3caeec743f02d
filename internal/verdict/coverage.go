package verdict

import (
	"slices"

	"rollcall.training/internal/policy"
)

// Coverage is what test cases cover of a policy.
type Coverage struct {
	rules          []string
	passed, failed map[string]bool
}

// Gap is a rule without a test case of one outcome.
type Gap struct {
	// Rule is the name of the limit, the rule or the locked default.
	Rule string `json:"rule"`
	// Missing are the outcomes without a case: pass, fail.
	Missing []string `json:"missing"`
}

func newCoverage(p *policy.Policy) Coverage {
	return Coverage{rules: p.EnabledRules(), passed: map[string]bool{}, failed: map[string]bool{}}
}

// add records which rules the gangs of a case satisfy and violate.
func (c *Coverage) add(verdicts []Verdict) {
	for _, v := range verdicts {
		for _, rule := range v.checked {
			i := slices.IndexFunc(v.Findings, func(f policy.Finding) bool { return f.Rule == rule })
			switch {
			case i < 0:
				c.passed[rule] = true
			case !v.Findings[i].Unknown:
				c.failed[rule] = true
			}
		}
	}
}

// Merge returns the coverage of both suites. They test the same policy.
func (c Coverage) Merge(o Coverage) Coverage {
	for _, rule := range o.rules {
		c.passed[rule] = c.passed[rule] || o.passed[rule]
		c.failed[rule] = c.failed[rule] || o.failed[rule]
	}
	return c
}

// Gaps returns the rules without a gang that satisfies them, or without a gang that violates them.
func (c Coverage) Gaps() []Gap {
	var gaps []Gap
	for _, rule := range c.rules {
		var missing []string
		if !c.passed[rule] {
			missing = append(missing, "pass")
		}
		if !c.failed[rule] {
			missing = append(missing, "fail")
		}
		if len(missing) > 0 {
			gaps = append(gaps, Gap{Rule: rule, Missing: missing})
		}
	}
	return gaps
}

// Count returns the number of rules.
func (c Coverage) Count() int { return len(c.rules) }

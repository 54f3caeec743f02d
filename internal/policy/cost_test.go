package policy_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestCostOfAllRules checks that all rules of a policy together have a limit, and that a rule that was
// not evaluated for this reason is violated.
func TestCostOfAllRules(t *testing.T) {
	const numbers = "[0,1,2,3,4,5,6,7,8,9]"
	expression := numbers + ".all(a, " + numbers + ".all(b, " + numbers + ".all(c, " + numbers +
		".all(d, a + b + c + d >= gang.size - 96))))"
	var rules []string
	for i := range 200 {
		rules = append(rules, fmt.Sprintf("{name: rule-%d, expression: %q}", i, expression))
	}
	p := readPolicy(t, "cluster: {rules: ["+strings.Join(rules, ", ")+"]}")
	findings := p.Evaluate(newInput(t, readJob(t, bigJob)))
	if len(findings) == 0 || len(findings) == len(rules) {
		t.Fatalf("%d of %d rules are violated, want only those beyond the limit", len(findings), len(rules))
	}
	for _, f := range findings {
		if !strings.Contains(f.Message, "exceed the cost of 10000000 units") {
			t.Fatalf("finding: %s", f)
		}
	}
}

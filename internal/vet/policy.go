package vet

import (
	"rollcall.training/internal/policy"
)

func policyChecks() []Check {
	return []Check{{
		Code: CodePolicyViolated, Severity: Error, checkGang: checkPolicy,
		Title: "The gang violates the policy of the cluster",
		Why: "The file of `--policy` contains the limits and rules of the administrators. " +
			"A finding is an error if the mode of the rule is enforce, a warning for warn, and an info for audit. " +
			"It is also an info if the input does not contain all members of the gang.",
		Fix: "Follow the message, which names the largest allowed value.",
	}}
}

// policySeverities are the severities of findings by the mode of the rule.
var policySeverities = map[policy.Mode]Severity{
	policy.ModeEnforce: Error, policy.ModeWarn: Warning, policy.ModeAudit: Info,
}

func checkPolicy(in *input, w *labeledWorkload) []issue {
	if in.policy == nil {
		return nil
	}
	facts := policy.NewFacts(*w.gang, w.admitted)
	var members []policy.Facts
	for _, m := range in.gangMembers(w) {
		if m.gang != nil {
			members = append(members, policy.NewFacts(*m.gang, m.admitted))
		}
	}
	namespace := policy.Namespace{Name: w.namespace}
	if o := in.findObject("Namespace", "", w.namespace); o != nil {
		namespace.Labels = o.Labels
	}
	var issues []issue
	for _, f := range in.policy.Evaluate(policy.Input{
		Facts: facts.WithMembers(members), Namespace: namespace, Workload: w.admitted, Now: in.now,
	}) {
		severity := policySeverities[f.Mode]
		if f.Unknown {
			severity = Info
		}
		issues = append(issues, issue{field: f.Field, message: f.Message, severity: severity})
	}
	return issues
}

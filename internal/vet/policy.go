package vet

import (
	"rollcall.training/gang"
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

// describeNamespace returns what a policy reads of a namespace.
func (in *input) describeNamespace(name string) policy.Namespace {
	return policy.Namespace{Name: name, Labels: in.namespaceLabels[name]}
}

// applyDefaults sets the defaults of the policy in a workload.
func (in *input) applyDefaults(w gang.Workload) error {
	if in.policy == nil {
		return nil // the policy of the cluster is not known
	}
	_, err := in.policy.ApplyDefaults(w, in.describeNamespace(w.Meta().Namespace))
	return err
}

func checkPolicy(in *input, w *labeledWorkload) []issue {
	if in.policy == nil {
		return nil
	}
	gangInput, self := policy.Input{Namespace: in.describeNamespace(w.namespace), Now: in.now}, 0
	for _, m := range in.gangMembers(w) {
		if m == w {
			self = len(gangInput.Members)
		}
		if m.gang != nil {
			gangInput.Members = append(gangInput.Members, policy.Member{Gang: *m.gang, Workload: m.admitted})
		}
	}
	var issues []issue
	for _, f := range in.policy.Judge(gangInput)[self] {
		severity := policySeverities[f.Mode]
		if f.Unknown {
			severity = Info
		}
		issues = append(issues, issue{field: f.Field, message: f.Message, severity: severity, rule: f.Rule})
	}
	return issues
}

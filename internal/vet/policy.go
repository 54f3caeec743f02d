package vet

import (
	"rollcall.training/gang"
	"rollcall.training/internal/policy"
)

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

func checkPolicy(r *reporter, w *labeledWorkload) {
	if r.policy == nil {
		return
	}
	gangInput, self := policy.Input{Namespace: r.describeNamespace(w.namespace), Now: r.now}, 0
	for _, m := range r.gangMembers(w) {
		if m == w {
			self = len(gangInput.Members)
		}
		if m.gang != nil {
			gangInput.Members = append(gangInput.Members, policy.Member{Gang: *m.gang, Workload: m.admitted})
		}
	}
	for _, f := range r.policy.Judge(gangInput)[self] {
		severity := policySeverities[f.Mode]
		if f.Unknown {
			severity = Info
		}
		r.issues = append(r.issues, issue{field: f.Field, message: f.Message, severity: severity, rule: f.Rule})
	}
}

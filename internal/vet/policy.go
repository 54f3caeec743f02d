package vet

import "rollcall.training/internal/policy"

// policySeverities are the severities of findings by the mode of the rule.
var policySeverities = map[policy.Mode]Severity{
	policy.ModeEnforce: Error, policy.ModeWarn: Warning, policy.ModeAudit: Info,
}

func checkPolicy(r *reporter, w *labeledWorkload) {
	if r.admission.Policy == nil {
		return
	}
	var members []policy.Member
	self := 0
	for _, m := range r.gangMembers(w) {
		if m == w {
			self = len(members)
		}
		if m.gang != nil {
			members = append(members, policy.Member{Gang: *m.gang, Workload: m.admitted})
		}
	}
	for _, f := range r.admission.Policy.Judge(r.admission.NewInput(w.namespace, members))[self].Findings {
		severity := policySeverities[f.Mode]
		if f.Unknown {
			severity = Info
		}
		r.issues = append(r.issues, issue{field: f.Field, message: f.Message, severity: severity, rule: f.Rule})
	}
}

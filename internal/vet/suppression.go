package vet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/gang"
)

// SuppressionPrefix starts the annotations that suppress the findings of one check on one object. The code of
// the check follows, and the value is the reason.
const SuppressionPrefix = "vet.rollcall.training/"

// unsuppressible are the codes of checks that report why an object would be rejected, or that concern the
// annotations themselves.
var unsuppressible = []Code{
	CodeUnreadable, CodeUndecodable, CodeDenied, CodeUnknownField, CodePolicyViolated, CodeSuppression,
}

// suppressFindings moves the findings that annotations suppress to r.Suppressed, and adds a finding for each
// annotation without an effect.
func (r *Report) suppressFindings(in *input, opts Options) {
	for _, o := range in.objects {
		for _, key := range slices.Sorted(maps.Keys(o.Annotations)) {
			name, isSuppression := strings.CutPrefix(key, SuppressionPrefix)
			if !isSuppression {
				continue
			}
			code, reason := Code(name), strings.TrimSpace(o.Annotations[key])
			problem := explainSuppression(code, reason)
			suppressed := 0
			if problem == "" {
				suppressed = r.suppress(o, code, reason)
			}
			severity := Warning
			if problem == "" && suppressed == 0 && opts.isEnabled(code) {
				problem, severity = "suppresses nothing: the check has no finding on this object", Info
			}
			if check, ok := FindCheck(CodeSuppression); ok && problem != "" && opts.isEnabled(CodeSuppression) {
				r.Findings = append(r.Findings, check.complete(Finding{
					Field: "metadata.annotations[" + key + "]", Message: problem, Severity: severity,
				}, o))
			}
		}
	}
}

// explainSuppression returns why an annotation cannot suppress a check; empty if it can.
func explainSuppression(code Code, reason string) string {
	_, exists := FindCheck(code)
	switch {
	case !exists:
		return fmt.Sprintf("check %q does not exist%s", code, gang.SuggestMatch(string(code), Codes()))
	case slices.Contains(unsuppressible, code):
		return fmt.Sprintf("the check %s reports a rejection and cannot be suppressed", code)
	case reason == "":
		return "has no reason; write why the finding does not apply"
	}
	return ""
}

// suppress moves the findings of a check on an object, and returns their number.
func (r *Report) suppress(o *inputObject, code Code, reason string) int {
	before := len(r.Findings)
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		isOwn := f.Code == code && f.Source == o.Document.Source && f.Document == o.Document.Number &&
			f.Object == o.displayName() && f.Namespace == o.namespace
		if isOwn {
			f.SuppressedBy = reason
			r.Suppressed = append(r.Suppressed, f)
		}
		return isOwn
	})
	return before - len(r.Findings)
}

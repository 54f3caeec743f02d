package webhook

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/policy"
)

// PolicyEnforcer admits workloads by the policy of the cluster. A nil PolicyEnforcer has no policy and allows
// everything.
type PolicyEnforcer struct {
	source policy.Source
	clock  clock.PassiveClock
	// last is the policy of the last request.
	last atomic.Pointer[policy.Policy]
}

// NewPolicyEnforcer returns a PolicyEnforcer. The clock determines which exemptions have expired.
func NewPolicyEnforcer(source policy.Source, c clock.PassiveClock) *PolicyEnforcer {
	return &PolicyEnforcer{source: source, clock: c}
}

// subject is a workload with its gang.
type subject struct {
	workload gang.Workload
	result   injectors.Result
	err      error // the workload does not describe a gang
}

// describeSubject returns an admitted workload with its gang.
func describeSubject(e *injectors.Engine, w gang.Workload) subject {
	result, err := e.Describe(w)
	return subject{workload: w, result: result, err: err}
}

// isGang reports whether Rollcall manages the workload. A label that was added to an existing Job has no effect. The
// template of a Job is immutable, so its labels prove the admission even after a user removed the record.
func (s subject) isGang() bool {
	isAdmitted := s.workload.IsInjected() || s.workload.Template().Labels[gang.LabelGang] != ""
	return isAdmitted && s.workload.HasFrameworkLabel() && !s.workload.OptedOut()
}

// applyDefaults sets the defaults of the policy in a new workload that Rollcall manages. A second call for the
// same workload changes nothing. The error is a denial: the workload selects a profile that does not exist,
// or the policy is not known yet.
func (p *PolicyEnforcer) applyDefaults(ctx context.Context, w gang.Workload) (gang.Warnings, error) {
	if !w.HasFrameworkLabel() || w.OptedOut() {
		return nil, nil
	}
	if p == nil {
		var none *policy.Policy
		return none.ApplyDefaults(w, policy.Namespace{Name: w.Meta().Namespace})
	}
	current, namespace, err := p.prepare(ctx, w)
	if err != nil {
		return nil, err
	}
	return current.ApplyDefaults(w, namespace)
}

// admitUpdate returns the response for an update. Only what the update makes worse is denied, so that
// a policy that became stricter never blocks a running gang.
func (p *PolicyEnforcer) admitUpdate(
	ctx context.Context, e *injectors.Engine, old, updated gang.Workload,
) admission.Response {
	if p == nil || !(subject{workload: updated}).isGang() {
		return admission.Allowed("")
	}
	before := describeSubject(e, withAdmittedReplicas(old))
	return p.admit(ctx, describeSubject(e, updated), &before)
}

// admit returns the response for a workload; before is nil if it is new. A workload that does not describe a gang is
// denied if it is new or was a gang before. Otherwise, two updates could replace a valid gang by a gang that violates
// the policy.
func (p *PolicyEnforcer) admit(ctx context.Context, s subject, before *subject) admission.Response {
	if p == nil || !s.isGang() {
		return admission.Allowed("")
	}
	current, namespace, err := p.prepare(ctx, s.workload)
	if err != nil {
		return newDenialResponse(err)
	}
	wasJudged := before != nil && before.err == nil && before.isGang()
	switch {
	case current == nil, s.err != nil && (!current.CanDeny() || before != nil && !wasJudged):
		return admission.Allowed("")
	case s.err != nil:
		return newDenialResponse(apierrors.NewBadRequest("the workload cannot be compared with the policy of the cluster: " +
			strings.Join(injectors.DenialCauses(s.err), "; ")))
	}
	in := p.newInput(namespace, s)
	f := findings{policy: current, namespace: namespace, introduced: p.judge(current, in)}
	if wasJudged {
		if !isFirstSize(before.workload, s.workload) {
			f.ignoreExisting(p.judge(current, p.newInput(namespace, *before)))
		}
		f.introduced = append(f.introduced, current.LeftProfile(before.workload, in)...)
	}
	return f.respond(s.workload)
}

// withAdmittedReplicas returns a StatefulSet with the size that admission has judged. The scale
// subresource changes the size without admission. The controller then sends an empty patch
// (docs/adr/0001-engine.md), in which both objects have the new size.
func withAdmittedReplicas(w gang.Workload) gang.Workload {
	if w.StatefulSet == nil || w.Ranks() == 0 {
		return w // a size of 0 is a suspension
	}
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return w
	}
	admitted := *w.StatefulSet
	admitted.Spec.Replicas = &record.Replicas
	return gang.Workload{StatefulSet: &admitted}
}

// isFirstSize reports whether an update gives a StatefulSet its first size. Admission has judged it without replicas,
// so it is judged as a new one.
func isFirstSize(old, updated gang.Workload) bool {
	if updated.StatefulSet == nil || updated.Ranks() == 0 {
		return false
	}
	record, err := injection.ReadRecord(old)
	return err == nil && record != nil && record.Replicas == 0
}

// prepare returns the policy in force and the namespace of a workload. The error is a denial: a
// workload that cannot be judged must not bypass a policy that can deny. Otherwise, a namespace that cannot be read has
// no labels.
func (p *PolicyEnforcer) prepare(ctx context.Context, w gang.Workload) (*policy.Policy, policy.Namespace, error) {
	current, err := p.source.Current()
	if err != nil {
		return nil, policy.Namespace{}, apierrors.NewServiceUnavailable("the policy of the cluster: " + err.Error())
	}
	if last := p.last.Swap(current); last != current {
		forgetRules(last.Rules(), current.Rules())
	}
	namespace, err := p.source.DescribeNamespace(ctx, w.Meta().Namespace)
	if err != nil && !current.CanDeny() {
		return current, policy.Namespace{Name: w.Meta().Namespace}, nil
	}
	if err != nil {
		return nil, namespace, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"the policy of the cluster: reading the namespace %s: %v", w.Meta().Namespace, err))
	}
	return current, namespace, nil
}

// judge returns the findings for a workload and records how long the evaluation took.
func (p *PolicyEnforcer) judge(current *policy.Policy, in policy.Input) []policy.Finding {
	start := p.clock.Now()
	found := current.Judge(in)[0].Findings
	policyEvaluationDuration.Observe(p.clock.Since(start).Seconds())
	return found
}

func (p *PolicyEnforcer) newInput(namespace policy.Namespace, s subject) policy.Input {
	member := policy.Member{Gang: s.result.Gang, Workload: s.workload}
	return policy.Input{Members: []policy.Member{member}, Namespace: namespace, Now: p.clock.Now()}
}

// findings is the result of comparing a workload with a policy.
type findings struct {
	policy    *policy.Policy
	namespace policy.Namespace
	// introduced are the findings that the request introduced or made worse.
	introduced []policy.Finding
	// existing are the findings that the old object has, too.
	existing []policy.Finding
}

// ignoreExisting moves the findings that an update does not make worse to f.existing.
func (f *findings) ignoreExisting(before []policy.Finding) {
	after := f.introduced
	f.introduced = policy.Worsened(before, after)
	introduced := sets.New(f.introduced...)
	for _, finding := range after {
		if !introduced.Has(finding) {
			f.existing = append(f.existing, finding)
		}
	}
}

// respond returns the response for a workload. All violations of rules in the mode enforce deny the
// request together. Those in the mode warn, and those that existed before, are warnings.
func (f findings) respond(w gang.Workload) admission.Response {
	f.record()
	var errs field.ErrorList
	var warnings gang.Warnings
	for _, i := range f.introduced {
		switch {
		case i.Unknown:
		case i.Mode == policy.ModeEnforce:
			errs = append(errs, newFieldError(i))
		case i.Mode == policy.ModeWarn:
			warnings = append(warnings, gang.Warning{Path: i.Field, Message: i.Message})
		}
	}
	for _, e := range f.existing {
		if !e.Unknown && e.Mode != policy.ModeAudit {
			warnings = append(warnings, gang.Warning{Path: e.Field, Message: e.Message})
		}
	}
	response := admission.Allowed("")
	if len(errs) > 0 {
		response = newDenialResponse(apierrors.NewInvalid(
			w.GroupKind(), gang.ShortenText(w.Meta().Name), gang.LimitErrors(errs)))
	}
	response.AuditAnnotations = f.auditAnnotations()
	return response.WithWarnings(gang.LimitWarnings(warnings).Strings()...)
}

// newFieldError returns a finding as an error of a field.
func newFieldError(f policy.Finding) *field.Error {
	err := &field.Error{Type: field.ErrorTypeForbidden, Field: f.Field, Detail: f.Message, BadValue: ""}
	if f.Value != "" {
		err.Type, err.BadValue = field.ErrorTypeInvalid, f.Value
		if n, parseErr := strconv.ParseInt(f.Value, 10, 64); parseErr == nil {
			err.BadValue = n // without quotation marks
		}
	}
	return err
}

// The audit annotations of a response. The API server adds the name of the webhook as a prefix.
const (
	// auditPolicy is the profile of the namespace and the digest of the policy.
	auditPolicy = "policy"
	// auditViolations, auditUnknown and auditExisting list rules, separated by commas: those that the
	// gang violates, those that nobody can judge yet, and those that it already violated before.
	auditViolations = "violations"
	auditUnknown    = "unknown"
	auditExisting   = "existing"
	// maxAuditRules limits the rules in one annotation.
	maxAuditRules = 20
)

// auditAnnotations returns what the audit log of the API server contains about the decision.
func (f findings) auditAnnotations() map[string]string {
	profile := policy.ClusterScope
	if p, ok := f.policy.ProfileOf(f.namespace); ok {
		profile = p.Name
	}
	annotations := map[string]string{auditPolicy: profile + "@" + f.policy.Digest()}
	lists := map[string][]string{}
	add := func(key string, finding policy.Finding) {
		lists[key] = append(lists[key], finding.Rule+"="+string(finding.Mode))
	}
	for _, i := range f.introduced {
		if i.Unknown {
			add(auditUnknown, i)
		} else {
			add(auditViolations, i)
		}
	}
	for _, e := range f.existing {
		add(auditExisting, e)
	}
	for key, rules := range lists {
		if len(rules) > maxAuditRules {
			rules = append(rules[:maxAuditRules], "...")
		}
		annotations[key] = strings.Join(rules, ",")
	}
	return annotations
}

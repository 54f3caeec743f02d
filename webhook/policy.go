package webhook

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
	"rollcall.training/internal/policy"
)

// Policies provides the policy of the cluster. Its methods must be safe for concurrent use.
type Policies interface {
	// Current returns the policy in force; nil for no policy. It returns an error until a policy is
	// loaded.
	Current() (*policy.Policy, error)
	// DescribeNamespace returns what the policy reads of a namespace.
	DescribeNamespace(ctx context.Context, name string) (policy.Namespace, error)
}

// Judge compares workloads with the policy of the cluster. A nil Judge has no policy and allows
// everything.
type Judge struct {
	policies Policies
	clock    clock.PassiveClock
	// last is the policy of the last request.
	last atomic.Pointer[policy.Policy]
}

// NewJudge returns a Judge. The clock determines which exemptions have expired.
func NewJudge(policies Policies, c clock.PassiveClock) *Judge {
	return &Judge{policies: policies, clock: c}
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

// judgeNew returns the response for a new workload.
func (j *Judge) judgeNew(ctx context.Context, s subject) admission.Response {
	if j == nil || !s.isGang() {
		return admission.Allowed("")
	}
	current, namespace, err := j.prepare(ctx, s.workload)
	if err != nil {
		return newDenialResponse(err)
	}
	if current == nil {
		return admission.Allowed("")
	}
	switch {
	case s.err != nil && current.CanDeny():
		return newDenialResponse(newNotJudgedError(s.err))
	case s.err != nil:
		return admission.Allowed("")
	}
	v := verdict{policy: current, namespace: namespace}
	v.introduced = j.evaluate(current, namespace, s)
	return v.respond(s.workload)
}

// judgeUpdate returns the response for an update. Only what the update makes worse is denied, so that
// a policy that became stricter never blocks a running gang.
func (j *Judge) judgeUpdate(ctx context.Context, e *injectors.Engine, old, updated gang.Workload) admission.Response {
	if j == nil || !(subject{workload: updated}).isGang() {
		return admission.Allowed("")
	}
	current, namespace, err := j.prepare(ctx, updated)
	if err != nil {
		return newDenialResponse(err)
	}
	if current == nil {
		return admission.Allowed("")
	}
	before, after := describeSubject(e, withAdmittedReplicas(old)), describeSubject(e, updated)
	wasJudged := before.err == nil && before.isGang()
	if after.err != nil {
		// Otherwise two updates could replace a valid gang by a gang that violates the policy.
		if wasJudged && current.CanDeny() {
			return newDenialResponse(newNotJudgedError(after.err))
		}
		return admission.Allowed("")
	}
	v := verdict{policy: current, namespace: namespace, introduced: j.evaluate(current, namespace, after)}
	if wasJudged {
		if !isFirstSize(old, updated) {
			v.ignoreExisting(j.evaluate(current, namespace, before))
		}
		left := current.LeftProfile(j.newInput(namespace, before), j.newInput(namespace, after))
		v.introduced = append(v.introduced, left...)
	}
	return v.respond(updated)
}

// withAdmittedReplicas returns a StatefulSet with the size that admission has judged. The scale
// subresource changes the size without admission. The controller then sends an empty patch
// (docs/adr/0009-scale-subresource.md), in which both objects have the new size.
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
func (j *Judge) prepare(ctx context.Context, w gang.Workload) (*policy.Policy, policy.Namespace, error) {
	current, err := j.policies.Current()
	if err != nil {
		return nil, policy.Namespace{}, apierrors.NewServiceUnavailable("the policy of the cluster: " + err.Error())
	}
	if last := j.last.Swap(current); last != current {
		forgetRules(last.Rules(), current.Rules())
	}
	namespace, err := j.policies.DescribeNamespace(ctx, w.Meta().Namespace)
	if err != nil && !current.CanDeny() {
		return current, policy.Namespace{Name: w.Meta().Namespace}, nil
	}
	if err != nil {
		return nil, namespace, apierrors.NewServiceUnavailable(fmt.Sprintf(
			"the policy of the cluster: reading the namespace %s: %v", w.Meta().Namespace, err))
	}
	return current, namespace, nil
}

// newNotJudgedError returns the denial of a workload that does not describe a gang.
func newNotJudgedError(err error) error {
	return apierrors.NewBadRequest("the workload cannot be compared with the policy of the cluster: " +
		strings.Join(injectors.DenialCauses(err), "; "))
}

// evaluate returns the findings for a workload and records how long the evaluation took.
func (j *Judge) evaluate(current *policy.Policy, namespace policy.Namespace, s subject) []policy.Finding {
	start := j.clock.Now()
	findings := current.Evaluate(j.newInput(namespace, s))
	policyEvaluationDuration.Observe(j.clock.Since(start).Seconds())
	return findings
}

// newInput returns what the policy judges of a workload.
func (j *Judge) newInput(namespace policy.Namespace, s subject) policy.Input {
	return policy.Input{
		Facts:     policy.NewFacts(s.result.Gang, s.workload),
		Namespace: namespace,
		Workload:  s.workload,
		Now:       j.clock.Now(),
	}
}

// verdict is the result of comparing a workload with a policy.
type verdict struct {
	policy    *policy.Policy
	namespace policy.Namespace
	// introduced are the findings that the request introduced or made worse.
	introduced []policy.Finding
	// existing are the findings that the old object has, too.
	existing []policy.Finding
}

// ignoreExisting moves the findings that an update does not make worse to v.existing.
func (v *verdict) ignoreExisting(before []policy.Finding) {
	after := v.introduced
	v.introduced = policy.Worsened(before, after)
	for _, f := range after {
		if !slices.Contains(v.introduced, f) {
			v.existing = append(v.existing, f)
		}
	}
}

// respond returns the response for a workload. All violations of rules in the mode enforce deny the
// request together. Those in the mode warn, and those that existed before, are warnings.
func (v verdict) respond(w gang.Workload) admission.Response {
	v.recordFindings()
	var errs field.ErrorList
	var warnings gang.Warnings
	for _, f := range v.introduced {
		switch {
		case f.Unknown:
		case f.Mode == policy.ModeEnforce:
			errs = append(errs, newFieldError(f))
		case f.Mode == policy.ModeWarn:
			warnings = append(warnings, gang.Warning{Path: f.Field, Message: f.Message})
		}
	}
	for _, f := range v.existing {
		if !f.Unknown && f.Mode != policy.ModeAudit {
			warnings = append(warnings, gang.Warning{Path: f.Field, Message: f.Message})
		}
	}
	response := admission.Allowed("")
	if len(errs) > 0 {
		response = newDenialResponse(apierrors.NewInvalid(
			w.GroupKind(), gang.ShortenText(w.Meta().Name), gang.LimitErrors(errs)))
	}
	response.AuditAnnotations = v.auditAnnotations()
	return response.WithWarnings(warnings.Strings()...)
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
func (v verdict) auditAnnotations() map[string]string {
	profile := policy.ClusterScope
	if p, ok := v.policy.ProfileOf(v.namespace); ok {
		profile = p.Name
	}
	annotations := map[string]string{auditPolicy: profile + "@" + v.policy.Digest()}
	lists := map[string][]string{}
	for _, f := range v.introduced {
		key := auditViolations
		if f.Unknown {
			key = auditUnknown
		}
		lists[key] = append(lists[key], f.Rule+"="+string(f.Mode))
	}
	for _, f := range v.existing {
		lists[auditExisting] = append(lists[auditExisting], f.Rule+"="+string(f.Mode))
	}
	for key, rules := range lists {
		if len(rules) > maxAuditRules {
			rules = append(rules[:maxAuditRules], "...")
		}
		annotations[key] = strings.Join(rules, ",")
	}
	return annotations
}

// JobUpdateJudge denies updates of Jobs that make a violation of the policy worse. The webhook
// configuration sends only updates that change a judged field, so suspension, finalizers and status never wait for it.
type JobUpdateJudge struct {
	engine *injectors.Engine
	judge  *Judge
}

// NewJobUpdateJudge returns the handler for updates of Jobs.
func NewJobUpdateJudge(e *injectors.Engine, judge *Judge) JobUpdateJudge {
	return JobUpdateJudge{engine: e, judge: judge}
}

// Handle judges one update. It allows every other request.
func (h JobUpdateJudge) Handle(ctx context.Context, req admission.Request) admission.Response {
	if gang.Kind(req.Kind.Kind) != gang.Job || req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	old, updated, err := decodeUpdate(req)
	if err != nil {
		return newDenialResponse(apierrors.NewBadRequest(err.Error()))
	}
	return h.judge.judgeUpdate(ctx, h.engine, old, updated)
}

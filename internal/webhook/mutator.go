package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/injection"
)

// Mutator injects labeled workloads. It does not use controller-runtime's typed Defaulter, which cannot
// return warnings and compares lists by position (docs/adr/0001).
type Mutator struct {
	engine *injectors.Engine
	policy *PolicyEnforcer
}

var _ admission.Handler = (*Mutator)(nil)

// NewMutator returns a Mutator that uses the given engine, and sets the defaults of the policy. A nil policy
// has none.
func NewMutator(e *injectors.Engine, p *PolicyEnforcer) *Mutator {
	return &Mutator{engine: e, policy: p}
}

// Handle responds to one admission request.
func (m *Mutator) Handle(ctx context.Context, req admission.Request) admission.Response {
	w, err := decodeNewWorkload(req)
	if err != nil {
		recordAdmission(m.engine, req, "", gang.ReasonDecodeError)
		return admission.Errored(http.StatusBadRequest, err)
	}
	before := w.DeepCopy()
	result, err := m.injectWorkload(ctx, req, w)
	recordAdmission(m.engine, req, w.Meta().Labels[gang.LabelFramework], result.Reason)
	log.FromContext(ctx).V(1).Info("Handled an admission request", "reason", result.Reason, "denied", err != nil)
	if err != nil {
		return newDenialResponse(err).WithWarnings(result.Warnings.Strings()...)
	}
	return newPatchResponse(injection.Diff(req.Object.Raw, before.Object(), w.Object()), result)
}

// injectWorkload injects w, the decoded object of the request. An update of a Job changes nothing but
// the suspension: the template of a Job is immutable, so a patch of the template would block even the
// removal of a finalizer (kubernetes/kubernetes#109164).
func (m *Mutator) injectWorkload(
	ctx context.Context, req admission.Request, w gang.Workload,
) (injectors.Result, error) {
	if req.Operation == admissionv1.Create {
		return m.injectNew(ctx, w)
	}
	if req.Operation != admissionv1.Update {
		return injectors.Result{Reason: gang.ReasonImmutableTemplate}, nil
	}
	concernsSuspend := w.Job != nil && (!w.IsSuspended() || w.QueueName() != "" || mayOwnSuspend(req, w.Job.ManagedFields))
	if w.StatefulSet == nil && !concernsSuspend {
		return injectors.Result{Reason: gang.ReasonImmutableTemplate}, nil
	}
	old, err := decodeWorkload(req.Kind.Kind, req.OldObject.Raw)
	if err != nil {
		return injectors.Result{Reason: gang.ReasonDecodeError}, apierrors.NewBadRequest(err.Error())
	}
	if w.StatefulSet != nil {
		sent := maps.Clone(w.Meta().Labels)
		result, err := m.engine.AdmitUpdate(old.StatefulSet, w.StatefulSet)
		if err == nil && w.HasFrameworkLabel() && !w.OptedOut() {
			setFactLabels(result.Gang, w, sent, old.Meta().Labels)
		}
		return result, err
	}
	return m.engine.PreserveSuspend(old.Job, w.Job), nil
}

// injectNew sets the defaults of the policy, injects a new workload and labels it with its facts.
func (m *Mutator) injectNew(ctx context.Context, w gang.Workload) (injectors.Result, error) {
	sent := maps.Clone(w.Meta().Labels)
	var old map[string]string
	if w.IsInjected() {
		old = sent // a second call, or a copy of another object
	}
	warnings, err := m.policy.applyDefaults(ctx, w)
	if err != nil {
		return injectors.Result{Reason: gang.ReasonInvalid}, err
	}
	result, err := m.engine.Admit(w)
	if err == nil {
		setFactLabels(result.Gang, w, sent, old)
	}
	result.Warnings = append(warnings, result.Warnings...)
	return result, err
}

// mayOwnSuspend reports whether an update may contain spec.suspend. Server-side apply records the
// fields of each manager. For other updates the result is true, because the API server does not
// distinguish a patch from a replacement.
func mayOwnSuspend(req admission.Request, fields []metav1.ManagedFieldsEntry) bool {
	var options metav1.UpdateOptions
	if err := json.Unmarshal(req.Options.Raw, &options); err != nil {
		return false
	}
	for _, entry := range fields {
		isApply := entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
		if isApply && entry.Manager == options.FieldManager {
			return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:suspend"`)
		}
	}
	return true
}

// decodeWorkload decodes a Job or a StatefulSet. Any other kind is an error.
func decodeWorkload(kind string, raw []byte) (gang.Workload, error) {
	w, ok := gang.NewWorkload(gang.Kind(kind))
	if !ok {
		return w, fmt.Errorf("decoding the request: unsupported kind %q; "+
			"the rules of the webhook must contain only jobs and statefulsets", kind)
	}
	if err := json.Unmarshal(raw, w.Object()); err != nil {
		return w, fmt.Errorf("decoding the %s of the request: %w", kind, err)
	}
	return w, nil
}

// decodeNewWorkload decodes the workload of a creation. The namespace can be missing in the object
// of a request.
func decodeNewWorkload(req admission.Request) (gang.Workload, error) {
	w, err := decodeWorkload(req.Kind.Kind, req.Object.Raw)
	if err == nil && w.Meta().Namespace == "" {
		w.Meta().Namespace = req.Namespace
	}
	return w, err
}

// decodeUpdate decodes both workloads of an update.
func decodeUpdate(req admission.Request) (old, updated gang.Workload, err error) {
	if old, err = decodeWorkload(req.Kind.Kind, req.OldObject.Raw); err != nil {
		return old, updated, err
	}
	updated, err = decodeWorkload(req.Kind.Kind, req.Object.Raw)
	return old, updated, err
}

// newPatchResponse returns a response that allows the request with the given changes. The reason of
// the result becomes an audit annotation.
func newPatchResponse(ops []jsonpatch.Operation, result injectors.Result) admission.Response {
	patch, err := injection.EncodePatch(ops)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	r := admission.Allowed("")
	r.Warnings = result.Warnings.Strings()
	r.AuditAnnotations = map[string]string{"reason": string(result.Reason)}
	if len(ops) > 0 {
		r.Patch = patch
		r.PatchType = new(admissionv1.PatchType)
		*r.PatchType = admissionv1.PatchTypeJSONPatch
	}
	return r
}

// newDenialResponse returns a response with the HTTP code, the reason and the causes of an API error.
// Any other error gives an HTTP code of 500.
func newDenialResponse(err error) admission.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	s := status.Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &s}}
}

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"rollcall.training/plan"
)

// Mutator injects labelled workloads. It is a handler of its own, rather than
// controller-runtime's typed Defaulter, because that one can give no warnings and
// compares lists by position (docs/adr/0003).
type Mutator struct {
	engine *injectors.Engine
}

var _ admission.Handler = (*Mutator)(nil)

// NewMutator returns a Mutator over an engine.
func NewMutator(e *injectors.Engine) *Mutator { return &Mutator{engine: e} }

// Handle answers one admission request.
func (m *Mutator) Handle(ctx context.Context, req admission.Request) admission.Response {
	w, err := decode(req.Kind.Kind, req.Object.Raw)
	if err != nil {
		observe(m.engine, req, "", gang.ReasonUndecodable)
		return admission.Errored(http.StatusBadRequest, err)
	}
	if w.Meta().Namespace == "" {
		w.Meta().Namespace = req.Namespace
	}
	before := w.DeepCopy()
	result, err := m.inject(req, w)
	observe(m.engine, req, w.Meta().Labels[gang.LabelFramework], result.Reason)
	log.FromContext(ctx).V(1).Info("Admitted workload", "reason", result.Reason, "denied", err != nil)
	if err != nil {
		return denied(err).WithWarnings(result.Warnings...)
	}
	return patched(plan.Diff(req.Object.Raw, before.Object(), w.Object()), result)
}

func (m *Mutator) inject(req admission.Request, w gang.Workload) (injectors.Result, error) {
	switch {
	case req.Operation == admissionv1.Create:
		return m.engine.Admit(w)
	case req.Operation == admissionv1.Update && w.StatefulSet != nil:
		old, err := decode(req.Kind.Kind, req.OldObject.Raw)
		if err != nil {
			return injectors.Result{Reason: gang.ReasonUndecodable}, apierrors.NewBadRequest(err.Error())
		}
		return m.engine.Readmit(old.StatefulSet, w.StatefulSet)
	case req.Operation == admissionv1.Update && (w.Queue() != "" || bySpec(req, w.Job.ManagedFields)):
		old, err := decode(req.Kind.Kind, req.OldObject.Raw)
		if err != nil {
			return injectors.Result{Reason: gang.ReasonUndecodable}, apierrors.NewBadRequest(err.Error())
		}
		return m.engine.Hold(old.Job, w.Job), nil
	default:
		// A Job's template is immutable; a patch here would block even the removal
		// of a finalizer (kubernetes/kubernetes#109164).
		return injectors.Result{Reason: gang.ReasonTooLate}, nil
	}
}

// bySpec reports whether an update may have named spec.suspend. Server-side apply says
// so itself; of all else nobody can tell, and a patch looks like a replacement.
func bySpec(req admission.Request, fields []metav1.ManagedFieldsEntry) bool {
	var options metav1.UpdateOptions
	if err := json.Unmarshal(req.Options.Raw, &options); err != nil {
		return false
	}
	for _, f := range fields {
		if f.Manager == options.FieldManager && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" {
			return f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:suspend"`)
		}
	}
	return true
}

// decode reads a workload of one of the two kinds.
func decode(kind string, raw []byte) (gang.Workload, error) {
	w, ok := gang.NewWorkload(gang.Kind(kind))
	if !ok {
		return w, fmt.Errorf("reading the request: kind %q is no workload; the webhook's rules should name jobs and statefulsets alone", kind)
	}
	if err := json.Unmarshal(raw, w.Object()); err != nil {
		return w, fmt.Errorf("reading the %s of the request: %w", kind, err)
	}
	return w, nil
}

// patched allows the request with the given changes.
func patched(ops []jsonpatch.Operation, result injectors.Result) admission.Response {
	r := admission.Allowed("")
	r.Warnings = result.Warnings
	r.AuditAnnotations = map[string]string{"reason": string(result.Reason)}
	if len(ops) > 0 {
		r.Patches = ops
		r.PatchType = new(admissionv1.PatchType)
		*r.PatchType = admissionv1.PatchTypeJSONPatch
	}
	return r
}

// denied turns the engine's error into a response that keeps its HTTP code, kind
// and causes.
func denied(err error) admission.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	s := status.Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &s}}
}

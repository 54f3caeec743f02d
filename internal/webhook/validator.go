package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/fieldpath"
)

// Validator checks labeled workloads after all mutating webhooks.
type Validator struct {
	engine *injectors.Engine
	policy *PolicyEnforcer
}

var _ admission.Handler = (*Validator)(nil)

// NewValidator returns the handler that validates Jobs and StatefulSets. A nil policy allows everything.
func NewValidator(e *injectors.Engine, p *PolicyEnforcer) *Validator {
	return &Validator{engine: e, policy: p}
}

// Handle validates one admission request. It allows every other kind, because a webhook rule that is
// too broad must not block unrelated objects. It allows every deletion.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	switch gang.Kind(req.Kind.Kind) {
	case gang.Job, gang.StatefulSet:
	default:
		return admission.Allowed("")
	}
	switch req.Operation {
	case admissionv1.Create:
		w, err := decodeNewWorkload(req)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		return v.validateCreate(ctx, w)
	case admissionv1.Update:
		old, updated, err := decodeUpdate(req)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		return v.validateUpdate(ctx, old, updated)
	}
	return admission.Allowed("")
}

// JudgeJobUpdate denies an update of a Job that makes a violation of the policy worse. The webhook configuration sends
// only updates that change a judged field, so suspension, finalizers and status never wait for it. It allows every
// other request.
func (v *Validator) JudgeJobUpdate(ctx context.Context, req admission.Request) admission.Response {
	if gang.Kind(req.Kind.Kind) != gang.Job || req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	old, updated, err := decodeUpdate(req)
	if err != nil {
		return newDenialResponse(apierrors.NewBadRequest(err.Error()))
	}
	return v.policy.admitUpdate(ctx, v.engine, old, updated)
}

// validateCreate denies a workload without injection, or with an injection that a later webhook
// changed. Its ranks could not connect to each other, but would occupy their accelerators. It also
// denies a gang that violates the policy of the cluster. An API server that does not keep restart rules only
// causes a warning.
func (v *Validator) validateCreate(ctx context.Context, w gang.Workload) admission.Response {
	injected := w.DeepCopy()
	result, err := v.engine.Admit(injected)
	restored, warnings := restoreRestartRules(w, injected)
	if denial := v.requireInjected(restored, injected, err); denial != nil {
		return newDenialResponse(denial)
	}
	if denial := checkFactLabels(result.Gang, w, nil); err == nil && denial != nil {
		return newDenialResponse(denial)
	}
	if err != nil { // the injection of another build, which this build cannot repeat
		result, err = v.engine.Describe(w)
	}
	return v.policy.admit(ctx, subject{workload: w, result: result, err: err}, nil).WithWarnings(warnings.Strings()...)
}

// validateUpdate denies a StatefulSet for the same reasons as validateCreate, but of the violations only
// those that the update makes worse. It never denies an update of a Job, because controllers must be
// able to update Jobs, and the pod template is immutable anyway. [Validator.JudgeJobUpdate] judges these updates.
func (v *Validator) validateUpdate(ctx context.Context, old, updated gang.Workload) admission.Response {
	warnings := append(warnUnmanaged(old, updated), v.warnIgnoredAnnotations(old, updated)...)
	if updated.StatefulSet == nil {
		warnings = append(warnings, warnImmutable(old, updated)...)
		return admission.Allowed("").WithWarnings(warnings.Strings()...)
	}
	injected := updated.DeepCopy()
	result, err := v.engine.AdmitUpdate(old.StatefulSet, injected.StatefulSet)
	denial := v.requireInjected(updated, injected, err)
	if denial == nil && err == nil {
		denial = v.checkUpdatedFactLabels(result.Gang, old, updated)
	}
	if denial != nil {
		return newDenialResponse(denial).WithWarnings(warnings.Strings()...)
	}
	return v.policy.admitUpdate(ctx, v.engine, old, updated).WithWarnings(warnings.Strings()...)
}

// checkUpdatedFactLabels returns a denial if an update changes a label with a fact to another value. The
// gang is the zero value if the update does not change the injection.
func (v *Validator) checkUpdatedFactLabels(g gang.Gang, old, updated gang.Workload) error {
	isUnchanged := func(key string) bool { return old.Meta().Labels[key] == updated.Meta().Labels[key] }
	if !slices.ContainsFunc(factKeys, func(key string) bool { return !isUnchanged(key) }) {
		return nil
	}
	if g.Name == "" {
		// Without a gang, another build injected the workload, and there is nothing to compare.
		if described, err := v.engine.Describe(updated); err == nil {
			g = described.Gang
		}
	}
	return checkFactLabels(g, updated, old.Meta().Labels)
}

// requireInjected returns an error if another injection of w would change more than its record. The
// parameters injected and err are the outcome of that injection. The record differs if another webhook
// changed a value that Rollcall accepts. The injection of another build of Rollcall is accepted if it
// is unmodified, because this build cannot validate it.
func (v *Validator) requireInjected(w, injected gang.Workload, err error) error {
	if v.engine.InjectedByOtherVersion(w) {
		return nil
	}
	if err != nil {
		return err
	}
	changes := listChanges(w, injected)
	if len(changes) == 0 {
		return nil
	}
	return apierrors.NewInvalid(w.GroupKind(), w.Meta().Name, field.ErrorList{field.Forbidden(
		field.NewPath("spec", "template"),
		"does not match the injection of Rollcall in "+strings.Join(changes, ", ")+
			", because the mutating webhook of Rollcall was not called, or another webhook changed the result; "+
			"check kubectl get mutatingwebhookconfigurations, "+
			"and set reinvocationPolicy: IfNeeded for the webhook of Rollcall",
	)})
}

// warnIgnoredAnnotations warns about annotations that an update made invalid. Rollcall ignores them
// instead of denying the update.
func (v *Validator) warnIgnoredAnnotations(old, updated gang.Workload) gang.Warnings {
	before := v.engine.IgnoredAnnotations(old)
	return slices.DeleteFunc(v.engine.IgnoredAnnotations(updated), func(warning gang.Warning) bool {
		return slices.Contains(before, warning)
	})
}

// warnImmutable warns about changes to an existing Job that have no effect on its pods.
func warnImmutable(old, updated gang.Workload) gang.Warnings {
	if !updated.IsInjected() {
		return warnLabeledTooLate(old, updated)
	}
	var out gang.Warnings
	for _, key := range gang.Keys() {
		out = append(out, warnKeyChanged(key, updated, keyValue(old, key), keyValue(updated, key))...)
	}
	before, after := old.Ranks(), updated.Ranks()
	if before == 0 { // the Job keeps its number of pods while its user suspends it with parallelism 0
		before = cmp.Or(ptr.Deref(old.Job.Spec.Completions, 0), after)
	}
	if before != after && after != 0 {
		out = append(out, warnResize(updated, before, after)...)
	}
	return out
}

// warnLabeledTooLate warns that a label on an existing Job has no effect.
func warnLabeledTooLate(old, updated gang.Workload) gang.Warnings {
	if old.HasFrameworkLabel() || !updated.HasFrameworkLabel() {
		return nil
	}
	return gang.Warnings{gang.NewWarning(fieldpath.Labels.Key(gang.LabelFramework),
		"nothing was injected, because the pod template of an existing Job is immutable; recreate the Job with the label")}
}

// warnResize warns about a number of pods that the ranks of the gang are not configured for.
func warnResize(w gang.Workload, before, after int32) gang.Warnings {
	path := field.NewPath("spec", "parallelism")
	text := w.Meta().Annotations[gang.AnnotationElastic]
	if text == "" {
		return gang.Warnings{gang.NewWarning(path, fmt.Sprintf(
			"the ranks are configured for %d pods of this Job; recreate the Job to change their number to %d",
			before, after))}
	}
	bounds, err := gang.ParseElasticBounds(text)
	if err == nil && (after < bounds.Min || after > bounds.Max) {
		return gang.Warnings{gang.NewWarning(path, fmt.Sprintf(
			"%d is not within %s, the elastic bounds of the ranks; recreate the Job to change the bounds", after, bounds))}
	}
	return nil
}

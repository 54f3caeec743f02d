package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

var (
	labelsPath      = field.NewPath("metadata", "labels")
	annotationsPath = field.NewPath("metadata", "annotations")
)

// Validator checks labeled workloads after all mutating webhooks.
type Validator[T runtime.Object] struct {
	engine *injectors.Engine
}

var (
	_ admission.Validator[*batchv1.Job]        = Validator[*batchv1.Job]{}
	_ admission.Validator[*appsv1.StatefulSet] = Validator[*appsv1.StatefulSet]{}
)

// ValidateCreate denies a workload without injection, or with an injection that a later webhook
// changed. Its ranks could not connect to each other, but would occupy their accelerators.
func (v Validator[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	w, err := gang.WorkloadOf(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	injected := w.DeepCopy()
	_, err = v.engine.Admit(injected)
	return nil, v.requireInjected(w, injected, err)
}

// ValidateUpdate denies a StatefulSet for the same reasons as ValidateCreate. It never denies an update
// of a Job, because controllers must be able to update Jobs, and the pod template is immutable anyway.
func (v Validator[T]) ValidateUpdate(_ context.Context, oldObj, newObj T) (admission.Warnings, error) {
	old, err := gang.WorkloadOf(oldObj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	updated, err := gang.WorkloadOf(newObj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	warnings := append(warnLabelRemoved(old, updated), v.warnIgnoredAnnotations(old, updated)...)
	if updated.StatefulSet == nil {
		return append(warnings, warnImmutable(old, updated)...).Strings(), nil
	}
	injected := updated.DeepCopy()
	_, err = v.engine.AdmitUpdate(old.StatefulSet, injected.StatefulSet)
	return warnings.Strings(), v.requireInjected(updated, injected, err)
}

// ValidateDelete allows every deletion.
func (v Validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// requireInjected returns an error if another injection of w would change more than its record. The
// parameters injected and err are the outcome of that injection. The record differs if another webhook
// changed a value that Rollcall accepts. The injection of another build of Rollcall is accepted if it
// is unmodified, because this build cannot validate it.
func (v Validator[T]) requireInjected(w, injected gang.Workload, err error) error {
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

// warnLabelRemoved warns that Rollcall no longer manages a workload.
func warnLabelRemoved(old, updated gang.Workload) gang.Warnings {
	if !old.HasFrameworkLabel() || updated.HasFrameworkLabel() {
		return nil
	}
	return gang.Warnings{gang.NewWarning(labelsPath.Key(gang.LabelFramework),
		"without this label, Rollcall no longer manages the gang; the injected values remain")}
}

// warnIgnoredAnnotations warns about annotations that an update made invalid. Rollcall ignores them
// instead of denying the update.
func (v Validator[T]) warnIgnoredAnnotations(old, updated gang.Workload) gang.Warnings {
	before := v.engine.IgnoredAnnotations(old)
	return slices.DeleteFunc(v.engine.IgnoredAnnotations(updated), func(warning gang.Warning) bool {
		return slices.Contains(before, warning)
	})
}

// warnImmutable warns about changes to an existing Job that have no effect on its pods.
func warnImmutable(old, updated gang.Workload) gang.Warnings {
	if _, injected := updated.Meta().Annotations[gang.AnnotationInjected]; !injected {
		return warnLabeledTooLate(old, updated)
	}
	var out gang.Warnings
	for _, key := range gang.Keys() {
		out = append(out, warnKeyChanged(key, keyValue(old, key), keyValue(updated, key))...)
	}
	before, after := old.Ranks(), updated.Ranks()
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
	return gang.Warnings{gang.NewWarning(labelsPath.Key(gang.LabelFramework),
		"nothing was injected, because the pod template of an existing Job is immutable; recreate the Job with the label")}
}

// warnKeyChanged warns about the new value of a label or annotation of an injected Job, unless the change
// takes full effect.
func warnKeyChanged(key gang.Key, before, after string) gang.Warnings {
	if before == after || gang.IsWrittenByRollcall(key.Name) {
		return nil
	}
	// warnLabelRemoved handles a label that is removed. A label that is restored needs no warning.
	if key.Name == gang.LabelFramework && (before == "" || after == "") {
		return nil
	}
	if key.Name == gang.AnnotationRestartPolicy || key.Name == gang.AnnotationSuccessPolicy {
		return gang.Warnings{gang.NewWarning(keyPath(key),
			"takes effect from now on, but fields that were set when the Job was created do not change; "+
				"recreate the Job to apply it fully")}
	}
	if !key.Mutable {
		return gang.Warnings{gang.NewWarning(keyPath(key),
			"a change has no effect on an existing Job; recreate the Job to apply it")}
	}
	return nil
}

// warnResize warns about a number of pods that the ranks of the gang are not configured for.
func warnResize(w gang.Workload, before, after int32) gang.Warnings {
	path := field.NewPath("spec", "parallelism")
	text := w.Meta().Annotations[gang.AnnotationElastic]
	if text == "" {
		return gang.Warnings{gang.NewWarning(path, fmt.Sprintf(
			"the ranks are configured for a gang size of %d; recreate the Job to change it to %d", before, after))}
	}
	bounds, err := gang.ParseElasticBounds(text)
	if err == nil && (after < bounds.Min || after > bounds.Max) {
		return gang.Warnings{gang.NewWarning(path, fmt.Sprintf(
			"%d is not within %s, the elastic bounds of the ranks; recreate the Job to change the bounds", after, bounds))}
	}
	return nil
}

// keyPath returns the path of a label or annotation.
func keyPath(key gang.Key) *field.Path {
	if key.Kind == gang.KeyKindLabel {
		return labelsPath.Key(key.Name)
	}
	return annotationsPath.Key(key.Name)
}

// keyValue returns the value of a label or annotation, empty if it is not set.
func keyValue(w gang.Workload, key gang.Key) string {
	if key.Kind == gang.KeyKindLabel {
		return w.Meta().Labels[key.Name]
	}
	return w.Meta().Annotations[key.Name]
}

// kindRouter routes each request to the validator of its kind.
type kindRouter struct {
	job, statefulSet *admission.Webhook
}

// NewValidator returns the handler that validates Jobs and StatefulSets.
func NewValidator(scheme *runtime.Scheme, e *injectors.Engine) admission.Handler {
	return kindRouter{
		job:         admission.WithValidator(scheme, Validator[*batchv1.Job]{engine: e}),
		statefulSet: admission.WithValidator(scheme, Validator[*appsv1.StatefulSet]{engine: e}),
	}
}

// Handle validates one admission request. It allows every other kind, because a webhook rule that is
// too broad must not block unrelated objects.
func (r kindRouter) Handle(ctx context.Context, req admission.Request) admission.Response {
	switch gang.Kind(req.Kind.Kind) {
	case gang.Job:
		return r.job.Handler.Handle(ctx, req)
	case gang.StatefulSet:
		return r.statefulSet.Handler.Handle(ctx, req)
	default:
		return admission.Allowed("")
	}
}

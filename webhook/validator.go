package webhook

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// Validator looks at labelled workloads when all mutating webhooks have spoken.
type Validator[T runtime.Object] struct {
	engine *injectors.Engine
}

var (
	_ admission.Validator[*batchv1.Job]        = Validator[*batchv1.Job]{}
	_ admission.Validator[*appsv1.StatefulSet] = Validator[*appsv1.StatefulSet]{}
)

// ValidateCreate refuses a workload that would start without its injection, or
// with one that a later webhook spoiled: it would hold its accelerators and never
// meet.
func (v Validator[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	w, err := gang.WorkloadOf(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	result, err := v.engine.Admit(w.DeepCopy())
	return nil, v.settled(w, result, err)
}

// ValidateUpdate holds a StatefulSet to the same. A Job, whose template cannot
// change any more, is never refused: its controllers must be able to work.
func (v Validator[T]) ValidateUpdate(_ context.Context, oldObj, newObj T) (admission.Warnings, error) {
	old, err := gang.WorkloadOf(oldObj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	updated, err := gang.WorkloadOf(newObj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	warnings := append(relabelled(old, updated), v.slips(old, updated)...)
	if updated.StatefulSet == nil {
		return append(warnings, tooLate(old, updated)...), nil
	}
	result, err := v.engine.Readmit(old.StatefulSet, updated.DeepCopy().StatefulSet)
	return warnings, v.settled(updated, result, err)
}

// ValidateDelete allows every deletion.
func (v Validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// settled is nil when another admission would change nothing, or is not for this build to
// judge.
func (v Validator[T]) settled(w gang.Workload, result injectors.Result, err error) error {
	if v.engine.Another(w) {
		return nil
	}
	if err != nil || result.Reason != gang.ReasonInjected {
		return err
	}
	return apierrors.NewInvalid(w.GroupKind(), w.Meta().Name, field.ErrorList{field.Forbidden(field.NewPath("spec", "template"),
		"is not as Rollcall injected it: either its mutating webhook was not called, or another webhook changed the result; "+
			"see kubectl get mutatingwebhookconfigurations, and let Rollcall's be reinvoked (reinvocationPolicy: IfNeeded)")})
}

// relabelled warns when a gang leaves Rollcall's care.
func relabelled(old, updated gang.Workload) admission.Warnings {
	if old.Labelled() && !updated.Labelled() {
		return admission.Warnings{fmt.Sprintf(
			"metadata.labels[%s]: removed; what was injected stays, and Rollcall no longer follows this gang", gang.LabelFramework)}
	}
	return nil
}

// slips warns of annotations that cannot be read any more, which is not worth a refusal: an
// update of a Job is never refused, and a gang goes on without them.
func (v Validator[T]) slips(old, updated gang.Workload) admission.Warnings {
	before := v.engine.Slips(old)
	return slices.DeleteFunc(v.engine.Slips(updated), func(s string) bool { return slices.Contains(before, s) })
}

// tooLate warns about changes to an existing Job that can have no effect.
func tooLate(old, updated gang.Workload) admission.Warnings {
	_, injected := updated.Meta().Annotations[gang.AnnotationInjected]
	if !injected {
		if !old.Labelled() && updated.Labelled() {
			return admission.Warnings{fmt.Sprintf(
				"metadata.labels[%s]: nothing was injected, because the pod template of an existing Job cannot change; delete the Job and create it anew with the label",
				gang.LabelFramework)}
		}
		return nil
	}
	var out admission.Warnings
	for _, k := range gang.Keys() {
		before, after := keyValue(old, k), keyValue(updated, k)
		switch leaves := k.Name == gang.LabelFramework && (before == "" || after == ""); { // or returns
		case before == after || gang.WrittenBack(k.Name) || leaves:
		case k.Name == gang.AnnotationRestartPolicy || k.Name == gang.AnnotationSuccessPolicy:
			out = append(out, fmt.Sprintf("metadata.%ss[%s]: is heeded from now on, but what the Job's spec was given for it at its creation stays; to have all of it, delete the Job and create it anew", k.Kind, k.Name))
		case !k.Live:
			out = append(out, fmt.Sprintf("metadata.%ss[%s]: a change has no effect on an existing Job; delete the Job and create it anew", k.Kind, k.Name))
		}
	}
	if a, b := old.Ranks(), updated.Ranks(); a != b && b != 0 {
		out = append(out, resized(updated, a, b)...)
	}
	return out
}

// resized warns of a new number of pods, unless the gang is one that can have it.
func resized(w gang.Workload, before, after int32) admission.Warnings {
	bounds := w.Meta().Annotations[gang.AnnotationElastic]
	if bounds == "" {
		return admission.Warnings{fmt.Sprintf(
			"spec.parallelism: the ranks were told that the gang has %d members; delete the Job and create it anew with %d", before, after)}
	}
	if e, err := gang.ParseElastic(bounds); err == nil && (after < e.Min || after > e.Max) {
		return admission.Warnings{fmt.Sprintf("spec.parallelism: %d is not within %s, the bounds that the ranks were told", after, e)}
	}
	return nil
}

func keyValue(w gang.Workload, k gang.Key) string {
	if k.Kind == gang.KindLabel {
		return w.Meta().Labels[k.Name]
	}
	return w.Meta().Annotations[k.Name]
}

// byKind sends each request to the validator of its kind.
type byKind struct {
	job, statefulSet *admission.Webhook
}

// NewValidator returns the handler that validates both kinds.
func NewValidator(scheme *runtime.Scheme, e *injectors.Engine) admission.Handler {
	return byKind{
		job:         admission.WithValidator(scheme, Validator[*batchv1.Job]{engine: e}),
		statefulSet: admission.WithValidator(scheme, Validator[*appsv1.StatefulSet]{engine: e}),
	}
}

// Handle passes the request on. What is no workload is let through: a rule that is
// too wide must not block the objects that it caught.
func (b byKind) Handle(ctx context.Context, req admission.Request) admission.Response {
	switch gang.Kind(req.Kind.Kind) {
	case gang.Job:
		return b.job.Handler.Handle(ctx, req)
	case gang.StatefulSet:
		return b.statefulSet.Handler.Handle(ctx, req)
	default:
		return admission.Allowed("")
	}
}

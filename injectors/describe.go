package injectors

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
)

// Describe returns the gang and the children of an admitted workload, without changing the workload.
//
// Users can edit the annotations of an admitted Job, and no webhook rejects a mistake. A mistake must
// not stop the reconciliation of a running gang, so Describe ignores an invalid annotation and
// returns a warning. An invalid annotation rollcall.training/roles is an error, because the workload
// would belong to a different gang without it.
func (e *Engine) Describe(w gang.Workload) (Result, error) {
	view := e.admittedView(w)
	g, warnings, denials := e.parseGang(view)
	if ignored := ignoreAnnotations(view, denials); len(ignored) > 0 {
		warnings = append(warnings, ignored...)
		g, _, denials = e.parseGang(view)
	}
	if len(denials) > 0 {
		r := Result{Reason: gang.ReasonInvalid, Gang: g, Warnings: warnings, Denials: denials}
		return r, newInvalidError(w, denials.ErrorList())
	}
	// The pods keep the gang name of their template. The label of a StatefulSet may have changed while no
	// webhook was available.
	if name := w.Template().Labels[gang.LabelGang]; name != "" {
		g.Name = name
	}
	g, p, err := e.planGang(view, g)
	if err != nil {
		return Result{Reason: gang.ReasonInternalError}, apierrors.NewInternalError(err)
	}
	r := Result{Reason: gang.ReasonUnchanged, Gang: g, Children: p.Children, Warnings: warnings}
	r.describePlacement(w)
	return r, nil
}

// DiagnoseLauncher returns the result of the [LauncherDiagnoser] of the gang's framework. Without one, there is no
// problem.
func (e *Engine) DiagnoseLauncher(g gang.Gang, launcher *corev1.Pod) (problem string, complete bool) {
	inj, err := e.registry.findInjector(g.Framework.Name)
	if diagnoser, ok := inj.(LauncherDiagnoser); ok && err == nil {
		return diagnoser.Diagnose(g, launcher)
	}
	return "", true
}

// IgnoredAnnotations returns a warning for each annotation of an admitted workload that
// [Engine.Describe] ignores.
func (e *Engine) IgnoredAnnotations(w gang.Workload) gang.Warnings {
	view := e.admittedView(w)
	_, _, denials := e.parseGang(view)
	return ignoreAnnotations(view, denials)
}

// ignoreAnnotations removes the annotations of an admitted workload whose removal fixes one of denials, and returns a
// warning for each denial. It changes nothing in a workload that was not injected.
func ignoreAnnotations(w gang.Workload, denials gang.Denials) gang.Warnings {
	if !w.IsInjected() {
		return nil
	}
	annotations := w.Meta().Annotations
	var out gang.Warnings
	for _, key := range gang.Keys() {
		_, isSet := annotations[key.Name]
		if !isSet || key.Kind != gang.KeyKindAnnotation || key.Name == gang.AnnotationRoles {
			continue
		}
		for _, d := range denials {
			if d.Field == fieldpath.Annotations.Key(key.Name).String() {
				out = append(out, gang.Warning{Path: d.Field, Message: d.ErrorBody() + "; the annotation is ignored"})
				delete(annotations, key.Name)
			}
		}
	}
	return out
}

// admittedView returns a shallow copy of a workload with the settings that its pods were created with.
// The caller may modify the annotations of the copy.
//
// The pods of a Job come from an immutable template. Framework, name and role are therefore those of the
// template, even if the labels of the Job changed. A Job with 0 pods keeps its former size: its user
// suspended it, or Rollcall finished it together with its gang.
func (e *Engine) admittedView(w gang.Workload) gang.Workload {
	if w.Job == nil {
		view := *w.StatefulSet
		view.Annotations = maps.Clone(view.Annotations)
		return gang.Workload{StatefulSet: &view}
	}
	view := *w.Job
	view.Labels, view.Annotations = maps.Clone(view.Labels), maps.Clone(view.Annotations)
	if !w.IsInjected() {
		return gang.Workload{Job: &view}
	}
	for _, key := range []string{gang.LabelFramework, gang.LabelGang, gang.LabelRole} {
		if v := w.Template().Labels[key]; v != "" {
			metav1.SetMetaDataLabel(&view.ObjectMeta, key, v)
		}
	}
	if w.Ranks() == 0 {
		size := cmp.Or(ptr.Deref(view.Spec.Completions, 0), gang.DeclaredSize(w, e.frameworks))
		view.Spec.Parallelism, view.Spec.Completions = &size, &size
	}
	return gang.Workload{Job: &view}
}

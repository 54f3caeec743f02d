package injectors

import (
	"cmp"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
)

// Describe reads w, which has been admitted before, as a gang and tells what its
// children are, without changing it.
//
// Nobody refuses what becomes of an admitted Job's annotations, and a gang shall not be
// left alone in the midst of its life for a slip: one that cannot be read any more counts
// as absent, and the warnings say so. The exception is the annotation roles, without which
// the workload would be another gang.
func (e *Engine) Describe(w gang.Workload) (Result, error) {
	view := e.admitted(w)
	g, warnings, errs := e.parse(view)
	if slips := misread(view, errs); len(slips) > 0 {
		for _, s := range slips {
			warnings = append(warnings, s.String())
			delete(view.Meta().Annotations, s.key)
		}
		g, _, errs = e.parse(view)
	}
	if len(errs) > 0 {
		return Result{Reason: gang.ReasonInvalid, Gang: g, Warnings: warnings}, invalid(w, errs)
	}
	// The pods bear the name that they were admitted under, whatever the workload's
	// label says by now; the template of a Job cannot follow it.
	if name := w.Template().Labels[gang.LabelGang]; name != "" {
		g.Name = name
	}
	p, err := e.plan(g)
	if err != nil {
		return Result{Reason: gang.ReasonInternal}, apierrors.NewInternalError(err)
	}
	return Result{Reason: gang.ReasonUnchanged, Gang: g, Children: p.Children, Warnings: warnings}, nil
}

// Slips lists the mistakes in annotations of an admitted workload for which they count as
// absent; see [Engine.Describe].
func (e *Engine) Slips(w gang.Workload) []string {
	view := e.admitted(w)
	_, _, errs := e.parse(view)
	var out []string
	for _, s := range misread(view, errs) {
		out = append(out, s.String())
	}
	return out
}

func fresh(w gang.Workload) bool {
	_, injected := w.Meta().Annotations[gang.AnnotationInjected]
	return !injected
}

// slip is a mistake in one annotation.
type slip struct {
	key string
	err *field.Error
}

func (s slip) String() string { return s.err.Error() + "; it counts as absent" }

// misread are the mistakes in an admitted workload that are gone with the annotation that
// they are about.
func misread(w gang.Workload, errs field.ErrorList) []slip {
	if fresh(w) {
		return nil
	}
	path := field.NewPath("metadata", "annotations")
	var out []slip
	for _, key := range gang.Keys() {
		if _, said := w.Meta().Annotations[key.Name]; !said || key.Kind != gang.KindAnnotation || key.Name == gang.AnnotationRoles {
			continue
		}
		for _, err := range errs {
			if err.Field == path.Key(key.Name).String() {
				out = append(out, slip{key.Name, err})
			}
		}
	}
	return out
}

// admitted is a copy of what the pods of a workload know of it. Those of a Job were made
// from a template that cannot change: framework and role are as it has them, whatever the
// Job's own labels say by now, and a Job that is told to have no pods, by its user or since
// its gang is done, has the size that it had.
func (e *Engine) admitted(w gang.Workload) gang.Workload {
	if w.Job == nil {
		view := *w.StatefulSet
		view.Annotations = maps.Clone(view.Annotations)
		return gang.Workload{StatefulSet: &view}
	}
	view := *w.Job
	view.Labels, view.Annotations = maps.Clone(view.Labels), maps.Clone(view.Annotations)
	for _, key := range []string{gang.LabelFramework, gang.LabelRole} {
		if v := w.Template().Labels[key]; v != "" && !fresh(w) {
			view.Labels[key] = v
		}
	}
	if w.Ranks() == 0 && !fresh(w) {
		size := cmp.Or(ptr.Deref(view.Spec.Completions, 0), gang.Asked(w, e.frameworks))
		view.Spec.Parallelism, view.Spec.Completions = &size, &size
	}
	return gang.Workload{Job: &view}
}

package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkLimits returns an error for each part of a workload that is too large to be parsed. Admission
// runs before the API server validates the object, so a name can have megabytes.
func checkLimits(w Workload) field.ErrorList {
	var errs field.ErrorList
	check := func(path *field.Path, text string, limit int) {
		if len(text) > limit {
			errs = append(errs, newTooLongError(path, len(text), limit))
		}
	}
	meta, spec := w.Meta(), &w.Template().Spec
	check(namePath, meta.Name, validation.DNS1123SubdomainMaxLength)
	check(field.NewPath("metadata", "namespace"), meta.Namespace, validation.DNS1123LabelMaxLength)
	for _, k := range keys {
		if text, ok := meta.Labels[k.Name]; ok && k.Kind == KeyKindLabel {
			check(labelsPath.Key(k.Name), text, validation.LabelValueMaxLength)
		}
		if text, ok := meta.Annotations[k.Name]; ok && k.Kind == KeyKindAnnotation {
			check(annotationsPath.Key(k.Name), text, maxAnnotationLength(k.Name))
		}
	}
	check(templateSpecPath.Child("subdomain"), spec.Subdomain, validation.DNS1123LabelMaxLength)
	if w.StatefulSet != nil {
		check(field.NewPath("spec", "serviceName"), w.StatefulSet.Spec.ServiceName, validation.DNS1123SubdomainMaxLength)
	}
	for i := range spec.Containers {
		if n := CountAccelerators(spec.Containers[i].Resources); n > MaxProcessesPerPod {
			errs = append(errs, field.Invalid(templateSpecPath.Child("containers").Index(i).Child("resources"), n,
				fmt.Sprintf("must have at most %d accelerators; reduce the limits", MaxProcessesPerPod)))
		}
	}
	if n := len(spec.Containers) + len(spec.InitContainers); n > MaxContainers {
		err := field.TooMany(templateSpecPath.Child("containers"), n, MaxContainers)
		err.Detail += " including init containers; remove containers"
		return append(errs, err)
	}
	if err := w.CheckSize(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// CheckSize returns an error if the workload, before or after its injection, needs too much memory in a
// manager; nil otherwise.
func (w Workload) CheckSize() *field.Error {
	n := w.measureCached()
	if n <= MaxNewBytes {
		return nil
	}
	return field.Invalid(templateSpecPath, fmt.Sprintf("%d bytes", n), fmt.Sprintf(
		"must need at most %d bytes of memory with the variables of Rollcall, where a text counts as at most %d; "+
			"use fewer containers, or move data from variables and arguments to a ConfigMap or a volume",
		MaxNewBytes, MaxCachedText))
}

// maxAnnotationLength returns the maximum length of an annotation in bytes.
func maxAnnotationLength(key string) int {
	if IsWrittenByRollcall(key) {
		return MaxWrittenAnnotationLength
	}
	return MaxAnnotationLength
}

func newTooLongError(path *field.Path, length, limit int) *field.Error {
	err := field.TooLong(path, "", limit)
	err.Detail += fmt.Sprintf(" and has %d; shorten the value", length)
	return err
}

// LimitErrors returns at most [MaxErrors] errors, without long texts of the user. The last error states
// how many errors it leaves out. It does not change its argument.
func LimitErrors(errs field.ErrorList) field.ErrorList {
	var out field.ErrorList
	for _, err := range errs[:min(len(errs), MaxErrors)] {
		short := *err
		short.Field, short.Detail = ShortenText(err.Field), ShortenText(err.Detail)
		if text, ok := err.BadValue.(string); ok {
			short.BadValue = ShortenText(text)
		}
		out = append(out, &short)
	}
	if omitted := len(errs) - len(out); omitted > 0 {
		out[len(out)-1].Detail += fmt.Sprintf("; the list omits %d more errors", omitted)
	}
	return out
}

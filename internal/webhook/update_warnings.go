package webhook

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/lifecycle"
)

// warnUnmanaged warns that an update makes Rollcall ignore a workload, and what remains of the gang.
func warnUnmanaged(old, updated gang.Workload) gang.Warnings {
	wasManaged := old.HasFrameworkLabel() && !old.OptedOut()
	switch {
	case !wasManaged:
		return nil
	case !updated.HasFrameworkLabel():
		return gang.Warnings{gang.NewWarning(fieldpath.Labels.Key(gang.LabelFramework),
			"without this label, Rollcall no longer manages the gang; "+describeRemains(updated))}
	case updated.OptedOut():
		return gang.Warnings{gang.NewWarning(fieldpath.Labels.Key(gang.LabelInject),
			"with this label, Rollcall no longer manages the gang; "+describeRemains(updated))}
	}
	return nil
}

// describeRemains describes what remains of a workload that Rollcall does not manage any more.
func describeRemains(w gang.Workload) string {
	status := lifecycle.ReadStatus(w)
	if !status.SuspendedByRollcall || !w.IsSuspended() || status.Phase.Terminal() {
		return "the injected values and the limits remain, and nobody restarts the ranks together"
	}
	if w.StatefulSet != nil {
		return "Rollcall scaled the StatefulSet to 0 for a restart and does not scale it up any more; run rollcall detach " +
			"instead, or scale the StatefulSet to its size"
	}
	return "Rollcall suspended the Job for a restart and does not resume it any more; run rollcall detach instead, " +
		"or set spec.suspend to false"
}

// warnKeyChanged warns about the new value of a label or annotation of an injected Job, unless the change
// takes full effect.
func warnKeyChanged(key gang.Key, updated gang.Workload, before, after string) gang.Warnings {
	if before == after || gang.IsWrittenByRollcall(key.Name) {
		return nil
	}
	switch key.Name {
	case gang.LabelFramework:
		// warnUnmanaged handles a label that is removed. A label that is restored needs no warning.
		if before == "" || after == "" {
			return nil
		}
	case gang.LabelInject:
		return nil // warnUnmanaged
	case gang.AnnotationRoles:
		return gang.Warnings{gang.NewWarning(keyPath(key),
			"Rollcall does not change the gang until the annotation has the same value on all members, and the ranks keep "+
				"the sizes that they were created with; restore the former value, or recreate all members")}
	case gang.AnnotationMaxRestarts, gang.AnnotationMaxDisruptions:
		return warnFailureLimit(key, updated, after)
	case gang.AnnotationRestartPolicy, gang.AnnotationSuccessPolicy:
		return gang.Warnings{gang.NewWarning(keyPath(key),
			"takes effect from now on, but fields that were set when the Job was created do not change; "+
				"recreate the Job to apply it fully")}
	}
	isOfProbe := updated.Meta().Annotations[gang.AnnotationProgressFile] != ""
	if (key.Name == gang.AnnotationStallTimeout || key.Name == gang.AnnotationStallAction) && !isOfProbe {
		return nil // no part of the template, but read with the pattern
	}
	if !key.Mutable {
		return gang.Warnings{gang.NewWarning(keyPath(key),
			"a change has no effect on an existing Job; recreate the Job to apply it")}
	}
	return nil
}

// warnFailureLimit warns that a Job fails before its gang has restarted as often as requested. The limit
// of a rank is immutable, and counts evicted pods, too.
func warnFailureLimit(key gang.Key, w gang.Workload, requested string) gang.Warnings {
	limit := ptr.Deref(w.Job.Spec.BackoffLimitPerIndex, gang.UnlimitedBackoffLimit)
	if n, err := strconv.ParseInt(requested, 10, 32); err != nil || n <= int64(limit) {
		return nil
	}
	return gang.Warnings{gang.NewWarning(keyPath(key), fmt.Sprintf(
		"takes effect from now on, but the Job fails if one rank fails more than %d times in a row "+
			"(spec.backoffLimitPerIndex, which is immutable); recreate the Job to raise this limit", limit))}
}

// keyPath returns the path of a label or annotation.
func keyPath(key gang.Key) *field.Path {
	if key.Kind == gang.KeyKindLabel {
		return fieldpath.Labels.Key(key.Name)
	}
	return fieldpath.Annotations.Key(key.Name)
}

// keyValue returns the value of a label or annotation, empty if it is not set.
func keyValue(w gang.Workload, key gang.Key) string {
	if key.Kind == gang.KeyKindLabel {
		return w.Meta().Labels[key.Name]
	}
	return w.Meta().Annotations[key.Name]
}

package webhook

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// restoreRestartRules returns w with the restart rules of containers that the API server did not keep, and a warning
// for each of these containers. It returns w itself if there are none. The parameter injected is another injection
// of w.
//
// The engine injects the rules if the version of the API server supports them. The feature can be disabled, and the
// API servers of a control plane can have different versions. Such an API server drops the fields before it calls
// validating webhooks (kubernetes pkg/api/pod, dropDisabledFields). The ranks then restart as on an older release.
func restoreRestartRules(w, injected gang.Workload) (gang.Workload, gang.Warnings) {
	containers, planned := w.Template().Spec.Containers, injected.Template().Spec.Containers
	var lacking []int // usually empty, and the record need not be read
	for i, c := range containers {
		if w.Job != nil && i < len(planned) && lacksRestartRules(c, planned[i]) {
			lacking = append(lacking, i)
		}
	}
	if len(lacking) == 0 {
		return w, nil
	}
	record, err := injection.ReadRecord(w)
	if err != nil || record == nil {
		return w, nil
	}
	var warnings gang.Warnings
	restored := w // copied before the first change
	for _, i := range lacking {
		if !record.Has(injection.KindRestartRules, containers[i].Name, "") {
			continue
		}
		if len(warnings) == 0 {
			restored = w.DeepCopy()
		}
		to := &restored.Template().Spec.Containers[i]
		to.RestartPolicy, to.RestartPolicyRules = planned[i].RestartPolicy, planned[i].RestartPolicyRules
		warnings = append(warnings, gang.NewWarning(
			field.NewPath("spec", "template", "spec", "containers").Index(i).Child("restartPolicyRules"),
			"the API server did not keep this field, so a rank that fails also fails its pod; "+
				"enable the feature gate ContainerRestartRules"))
	}
	return restored, warnings
}

// lacksRestartRules reports whether a container has no restart rules, although its injection sets them. Any other
// value belongs to whoever changed it.
func lacksRestartRules(c, injected corev1.Container) bool {
	return c.Name == injected.Name && c.RestartPolicy == nil && len(c.RestartPolicyRules) == 0 &&
		len(injected.RestartPolicyRules) > 0
}

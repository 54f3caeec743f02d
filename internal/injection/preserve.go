package injection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// PreserveAdmitted keeps the injection of a StatefulSet during an update as long as the user's inputs
// are the same. Otherwise the next sync of a GitOps tool after an upgrade of Rollcall would change
// the template and restart the training. It reports whether the inputs are the same. If not, the
// caller must apply a plan. In both cases updated gets the size and the state of the gang from old.
//
// Clients send different objects: a patch includes the injection, a replacement does not.
// PreserveAdmitted therefore compares both objects without the values in the record of old. The same
// build reads both objects, so the format of other builds has no influence.
func PreserveAdmitted(old, updated *appsv1.StatefulSet) (bool, error) {
	record, err := ReadRecord(gang.Workload{StatefulSet: old})
	if err != nil || record == nil {
		return false, nil //nolint:nilerr // Apply reports an invalid record
	}
	preserveImmutableFields(old, updated, record)
	before, _, err := extractUserInputs(old, record)
	if err != nil {
		return false, err
	}
	after, hasInjection, err := extractUserInputs(updated, record)
	if err != nil {
		return false, err
	}
	restoreMetadata(old, updated)
	// A StatefulSet without replicas is suspended or restarting, and resumes with its previous size.
	replicas := gang.Workload{StatefulSet: updated}.Ranks()
	sameSize := replicas == record.Replicas || replicas == 0
	if after != before || !sameSize {
		return false, nil
	}
	if !hasInjection {
		updated.Spec.Template = *old.Spec.Template.DeepCopy()
	}
	updated.Annotations[gang.AnnotationInjected] = old.Annotations[gang.AnnotationInjected]
	return true, nil
}

// restoreMetadata copies the labels and annotations that Rollcall wrote, which a replacement removes.
func restoreMetadata(old, updated *appsv1.StatefulSet) {
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	restore := func(from, to map[string]string, key string) {
		if _, exists := to[key]; !exists && from[key] != "" {
			to[key] = from[key]
		}
	}
	restore(old.Annotations, updated.Annotations, gang.AnnotationInjected)
	if _, exists := updated.Annotations[gang.AnnotationStatus]; !exists { // a status without the key ends the suspension
		restore(old.Annotations, updated.Annotations, gang.AnnotationSuspendedBy)
	}
	restore(old.Annotations, updated.Annotations, gang.AnnotationStatus)
	restore(old.Labels, updated.Labels, gang.LabelPhase)
}

// preserveImmutableFields copies the immutable fields that admission set.
func preserveImmutableFields(old, updated *appsv1.StatefulSet, record *Record) {
	if record.Values[fieldServiceName] != "" && updated.Spec.ServiceName == "" {
		updated.Spec.ServiceName = old.Spec.ServiceName
	}
	if record.Values[fieldPodManagementPolicy] != "" {
		updated.Spec.PodManagementPolicy = old.Spec.PodManagementPolicy
	}
}

// extractUserInputs returns the user's inputs as text: the keys under [gang.Prefix], the ordinals, and
// the template without the recorded values. It also reports whether set has all recorded values.
func extractUserInputs(set *appsv1.StatefulSet, record *Record) (text string, hasInjection bool, err error) {
	template := set.Spec.Template.DeepCopy()
	pod := newPodTemplate(template)
	unmodified, hasInjection := record.findUnmodified(newDigester(pod))
	for k := range unmodified {
		targets[k.kind].remove(pod, k)
	}
	template.Spec.EnableServiceLinks = nil
	template.Spec.InitContainers = nilIfEmpty(template.Spec.InitContainers)
	template.Spec.Volumes = nilIfEmpty(template.Spec.Volumes)
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for i := range list {
			c := &list[i]
			c.Env, c.VolumeMounts = nilIfEmpty(c.Env), nilIfEmpty(c.VolumeMounts)
			// The default of the API server can be absent in a manifest.
			c.TerminationMessagePolicy = cmp.Or(c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
		}
	}
	encoded, err := json.Marshal(map[string]any{
		"labels":      filterUserKeys(set.Labels),
		"annotations": filterUserKeys(set.Annotations),
		"ordinals":    set.Spec.Ordinals,
		"template":    template,
	})
	if err != nil {
		return "", false, fmt.Errorf("encoding the inputs of StatefulSet %s: %w", set.Name, err)
	}
	return string(encoded), hasInjection, nil
}

func nilIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// filterUserKeys returns the keys that users set and that determine the template: those under [gang.Prefix] except for
// mutable ones, and those of KAI.
func filterUserKeys(metadata map[string]string) map[string]string {
	filtered := map[string]string{}
	for key, value := range metadata {
		isOwn := strings.HasPrefix(key, gang.Prefix) && !gang.IsWrittenByRollcall(key) && !gang.IsMutable(key)
		if isOwn || key == gang.LabelKAIQueue || key == gang.AnnotationKAITopology {
			filtered[key] = value
		}
	}
	return filtered
}

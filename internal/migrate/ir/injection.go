package ir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// Inject returns what Rollcall injects into a role, for the roles that b has so far.
func (b *Gang) Inject(context source.Context, role *Role) source.Injection {
	pods := map[string]int32{}
	for _, r := range b.Roles {
		pods[r.Name] = r.Pods
	}
	annotations := maps.Clone(b.RollcallAnnotations)
	maps.Copy(annotations, role.RollcallAnnotations)
	return b.InjectTemplate(context, role.Name, pods, annotations, role.Template)
}

// InjectTemplate returns what Rollcall injects into a Job with the template of a role. The gang has the
// given numbers of pods by role.
func (b *Gang) InjectTemplate(
	context source.Context, role string, pods map[string]int32, annotations map[string]string,
	template corev1.PodTemplateSpec,
) source.Injection {
	if context.Inject == nil {
		return source.Injection{}
	}
	meta := metav1.ObjectMeta{
		Name: b.Name, Namespace: b.Namespace,
		Labels: map[string]string{gang.LabelFramework: b.Framework}, Annotations: maps.Clone(annotations),
	}
	if len(pods) > 1 {
		sizes := make([]string, 0, len(pods))
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			sizes = append(sizes, fmt.Sprintf("%s=%d", name, pods[name]))
		}
		meta.Name += "-" + role
		meta.Labels[gang.LabelRole] = role
		metav1.SetMetaDataAnnotation(&meta, gang.AnnotationRoles, strings.Join(sizes, ","))
	}
	return context.Inject(gang.Workload{Job: &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(pods[role]), Completions: ptr.To(pods[role]),
		CompletionMode: ptr.To(batchv1.IndexedCompletion), Template: template,
	}}})
}

// Adopt sets the annotations for settings that variables of the user contain.
func (b *Gang) Adopt(injection source.Injection) {
	for key, value := range injection.Settings {
		if b.RollcallAnnotations[key] == "" {
			b.SetAnnotation(key, value)
		}
	}
}

// TrainingContainer returns the index of the first training container of a role.
func (b *Gang) TrainingContainer(context source.Context, role *Role) int {
	chosen := b.Inject(context, role).TrainingContainers
	return max(0, slices.IndexFunc(role.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(chosen, c.Name)
	}))
}

// IsDefaultTrainingContainer reports whether a container is the training container without an
// annotation of Rollcall: it is chosen, and it is the first container or kubectl's default.
func IsDefaultTrainingContainer(chosen []string, template corev1.PodTemplateSpec, name string) bool {
	return slices.Equal(chosen, []string{name}) && (template.Spec.Containers[0].Name == name ||
		template.Annotations[gang.AnnotationDefaultContainer] == name)
}

// SetTrainingContainer sets the annotation for the training container of a role if it is not the
// default.
func (b *Gang) SetTrainingContainer(context source.Context, role *Role, name string) {
	delete(role.RollcallAnnotations, gang.AnnotationContainers)
	if len(role.Template.Spec.Containers) > 1 &&
		!IsDefaultTrainingContainer(b.Inject(context, role).TrainingContainers, role.Template, name) {
		role.RollcallAnnotations[gang.AnnotationContainers] = name
	}
}

package ir

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/source"
)

// PlanRole returns what Rollcall injects into a role, for the roles that b has so far.
func (b *Gang) PlanRole(context source.Context, role *Role) source.Plan {
	if context.Plan == nil {
		return source.Plan{}
	}
	workload := source.Workload{
		Gang: b.Name, Namespace: b.Namespace, Framework: b.Framework, Role: role.Name,
		Pods: map[string]int32{}, Annotations: map[string]string{}, Template: role.Template,
	}
	maps.Copy(workload.Annotations, b.RollcallAnnotations)
	maps.Copy(workload.Annotations, role.RollcallAnnotations)
	for _, r := range b.Roles {
		workload.Pods[r.Name] = r.Pods
	}
	return context.Plan(workload)
}

// TrainingContainer returns the index of the first training container of a role.
func (b *Gang) TrainingContainer(context source.Context, role *Role) int {
	chosen := b.PlanRole(context, role).TrainingContainers
	return max(0, slices.IndexFunc(role.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(chosen, c.Name)
	}))
}

// RequiredVars returns the names of the variables that Rollcall sets in the training containers of a
// role and that must not have another value. Readers remove them from the template.
func (b *Gang) RequiredVars(context source.Context, role *Role) []string {
	var names []string
	for _, e := range b.PlanRole(context, role).RequiredVars {
		names = append(names, e.Name)
	}
	return names
}

// defaultContainerAnnotation is kubectl's annotation for the main container of a pod. Rollcall uses
// that container as training container.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// IsDefaultTrainingContainer reports whether a container is the training container without an
// annotation of Rollcall: the plan contains it, and it is the first container or kubectl's default.
func IsDefaultTrainingContainer(p source.Plan, template corev1.PodTemplateSpec, name string) bool {
	containers := template.Spec.Containers
	return slices.Equal(p.TrainingContainers, []string{name}) &&
		(containers[0].Name == name || template.Annotations[defaultContainerAnnotation] == name)
}

// SetTrainingContainer sets the annotation for the training container of a role if it is not the
// default.
func (b *Gang) SetTrainingContainer(context source.Context, role *Role, name string) {
	delete(role.RollcallAnnotations, gang.AnnotationContainers)
	if len(role.Template.Spec.Containers) > 1 &&
		!IsDefaultTrainingContainer(b.PlanRole(context, role), role.Template, name) {
		role.RollcallAnnotations[gang.AnnotationContainers] = name
	}
}

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

// SetTrainingContainer sets the annotation for the training container of a role if Rollcall would
// choose another one.
func (b *Gang) SetTrainingContainer(context source.Context, role *Role, name string) {
	delete(role.RollcallAnnotations, gang.AnnotationContainers)
	chosen := b.PlanRole(context, role).TrainingContainers
	if len(role.Template.Spec.Containers) > 1 && !slices.Equal(chosen, []string{name}) {
		role.RollcallAnnotations[gang.AnnotationContainers] = name
	}
}

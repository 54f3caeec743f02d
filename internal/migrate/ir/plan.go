package ir

import (
	"slices"

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
		Pods: map[string]int32{}, Annotations: b.RollcallAnnotations, Template: role.Template,
	}
	for _, r := range b.Roles {
		workload.Pods[r.Name] = r.Pods
	}
	return context.Plan(workload)
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
	chosen := b.PlanRole(context, role).TrainingContainers
	if len(role.Template.Spec.Containers) > 1 && !slices.Equal(chosen, []string{name}) {
		role.RollcallAnnotations[gang.AnnotationContainers] = name
	}
}

package ir

import "rollcall.training/internal/migrate/source"

// RequiredVars returns the names of the variables that Rollcall sets in the training containers of a
// role and that must not have another value. Readers remove them from the template.
func (b *Gang) RequiredVars(context source.Context, role string) []string {
	if context.RequiredVars == nil {
		return nil
	}
	workload := source.Workload{
		Gang: b.Name, Namespace: b.Namespace, Framework: b.Framework, Role: role,
		Pods: map[string]int32{}, Annotations: b.RollcallAnnotations,
	}
	for _, r := range b.Roles {
		workload.Pods[r.Name] = r.Pods
	}
	var names []string
	for _, e := range context.RequiredVars(workload) {
		names = append(names, e.Name)
	}
	return names
}

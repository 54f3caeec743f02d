package kubeflow

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// readReplicas converts the replica specs to roles, in the order of their ranks.
func (r *reader) readReplicas() {
	r.replicaSpecs = r.spec.Get(r.replicaSpecsKey)
	errorsBefore := r.spec.HasErrors()
	keys := r.replicaSpecs.Keys()
	if len(keys) == 0 {
		if errorsBefore || !r.spec.HasErrors() { // otherwise Keys recorded a wrong type
			r.replicaSpecs.MarkRequired("a job needs at least one replica type: " + r.replicaTypeNames())
		}
		return
	}
	for _, key := range keys {
		if _, ok := r.framework.FindRole(strings.ToLower(key)); !ok {
			r.replicaSpecs.Get(key).MarkInvalid(fmt.Sprintf("must be a replica type of %s: %s", r.Kind, r.replicaTypeNames()))
		}
	}
	for _, role := range r.framework.Roles {
		found := false
		for _, key := range keys {
			// The operators accepted any case until 1.8 (setTypeNameToCamelCase).
			if !strings.EqualFold(key, role.Name) {
				continue
			}
			if found {
				r.replicaSpecs.Get(key).MarkInvalid(replicaTypeName(role.Name) +
					" exists twice, with names that differ in case; remove one")
			}
			found = true
			r.readReplicaSpec(role, r.replicaSpecs.Get(key))
		}
	}
	if len(r.gang.Roles) == 0 && !r.spec.HasErrors() {
		r.spec.MarkRequired("no replica type has pods; set replicas of at least one to 1 or more")
	}
}

// replicaTypeName returns the name of a role in a manifest: PS, Worker.
func replicaTypeName(role string) string {
	if role == "ps" {
		return "PS"
	}
	return strings.ToUpper(role[:1]) + role[1:]
}

// replicaTypeNames returns the replica types of the kind, for a message.
func (r *reader) replicaTypeNames() string {
	var names []string
	for _, role := range r.framework.Roles {
		names = append(names, replicaTypeName(role.Name))
	}
	return strings.Join(names, ", ")
}

// readReplicaSpec adds the role of a replica spec to the gang. It adds none for a spec without pods
// and for a spec with mistakes.
func (r *reader) readReplicaSpec(frameworkRole gang.Role, spec source.Field) {
	role := ir.Role{
		Name: frameworkRole.Name, StatefulSet: r.runsUntilStopped(frameworkRole), Source: spec.Get("template"),
		RollcallAnnotations: map[string]string{},
		SourceNames: ir.SourceNames{
			Role: frameworkRole.Name, Prefix: r.gang.Name + "-" + frameworkRole.Name + "-", PerPodService: true,
		},
	}
	replicas, defaultReplicas := spec.Get("replicas"), int32(1)
	if r.Kind == "MPIJob" && role.Name == roleWorker {
		defaultReplicas = 0
	}
	role.Pods = ptr.Deref(replicas.Int32(), defaultReplicas)
	switch {
	case role.Pods < 0 || role.Pods > gang.MaxPods:
		replicas.MarkInvalid(fmt.Sprintf("must be a number of pods from 0 to %d", gang.MaxPods))
	case frameworkRole.MaxPods > 0 && role.Pods > frameworkRole.MaxPods:
		replicas.MarkInvalid(fmt.Sprintf("must be 1, because a %s has one %s", r.Kind, replicaTypeName(role.Name)))
	case role.Pods == 0:
		spec.MarkLeftOut("it has no pods")
	case r.readTemplate(&role):
		replicas.MarkPreserved("the number of pods of the workload")
		r.gang.Roles = append(r.gang.Roles, role)
		r.restartPolicies = append(r.restartPolicies, spec.Get("restartPolicy"))
	}
}

// runsUntilStopped reports whether the pods of a role do not finish on their own. An evaluator of a
// TFJob finishes after the last checkpoint.
func (r *reader) runsUntilStopped(role gang.Role) bool {
	return role.LongRunning && role.Name != "evaluator" || r.framework.HasLauncher && role.Name != gang.RoleLauncher
}

// readTemplate reads the pod template of a role. It returns false after it recorded a mistake.
func (r *reader) readTemplate(role *ir.Role) bool {
	if !role.Source.Exists() {
		role.Source.MarkRequired("the pods are created from it")
		return false
	}
	if !role.Source.Decode(&role.Template) {
		return false
	}
	if len(role.Template.Spec.Containers) == 0 {
		role.Source.At("spec", "containers").MarkRequired("a pod needs a training container; add one")
		return false
	}
	role.Source.At("spec", "restartPolicy").MarkLeftOut(
		"the operator overwrote it with the restartPolicy of the replica spec")
	return true
}

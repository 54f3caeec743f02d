package kubeflow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// readReplicas converts the replica specs to roles, in the order of their ranks.
func (r *reader) readReplicas() {
	r.replicaSpecs = r.spec.Get(r.replicaSpecsKey)
	types := strings.Join(r.framework.RoleNames(), ", ")
	keys := r.replicaSpecs.Keys()
	if len(keys) == 0 {
		if !r.spec.HasErrors() { // otherwise Keys recorded a wrong type
			r.replicaSpecs.MarkRequired("a job needs at least one replica type: " + types)
		}
		return
	}
	for _, key := range keys {
		if _, ok := r.framework.FindRole(strings.ToLower(key)); !ok {
			r.replicaSpecs.Get(key).MarkInvalid(fmt.Sprintf("must be a replica type of %s: %s", r.Kind, types))
		}
	}
	for _, role := range r.framework.Roles {
		for _, key := range keys {
			if strings.EqualFold(key, role.Name) { // the operators accepted any case until 1.8 (setTypeNameToCamelCase)
				r.readReplicaSpec(role, r.replicaSpecs.Get(key))
			}
		}
	}
	if len(r.gang.Roles) == 0 && !r.spec.HasErrors() {
		r.spec.MarkRequired("no replica type has pods; set replicas of at least one to 1 or more")
	}
}

// readReplicaSpec adds the role of a replica spec to the gang. It adds none for a spec without pods
// and for a spec with mistakes.
func (r *reader) readReplicaSpec(frameworkRole gang.Role, spec source.Field) {
	role := ir.Role{
		Name: frameworkRole.Name, Source: spec.Get("template"),
		RollcallAnnotations: map[string]string{},
		SourceNames: ir.SourceNames{
			Role: frameworkRole.Name, Prefix: r.gang.Name + "-" + frameworkRole.Name + "-", PerPodService: true,
		},
	}
	// The pods do not finish on their own. An evaluator of a TFJob finishes after the last checkpoint.
	role.StatefulSet = frameworkRole.LongRunning && role.Name != "evaluator" ||
		r.framework.HasLauncher && role.Name != gang.RoleLauncher
	replicas, defaultReplicas := spec.Get("replicas"), int32(1)
	if r.Kind == "MPIJob" && role.Name == roleWorker {
		defaultReplicas = 0
	}
	role.Pods = ptr.Deref(replicas.Int32(), defaultReplicas)
	switch {
	case role.Pods < 0 || role.Pods > gang.MaxPods:
		replicas.MarkInvalid(fmt.Sprintf("must be a number of pods from 0 to %d", gang.MaxPods))
	case frameworkRole.MaxPods > 0 && role.Pods > frameworkRole.MaxPods:
		replicas.MarkInvalid(fmt.Sprintf("must be 1, because a %s has one %s", r.Kind, role.Name))
	case role.Pods == 0:
		spec.MarkLeftOut("it has no pods")
	case r.readTemplate(&role):
		replicas.MarkPreserved("the number of pods of the workload")
		r.gang.Roles = append(r.gang.Roles, role)
		r.restartPolicies = append(r.restartPolicies, spec.Get("restartPolicy"))
	}
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

// configureContainers selects the training container of each role, and converts its port and its
// variables.
func (r *reader) configureContainers() {
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		training := findContainer(&role.Template.Spec, r.containerName)
		role.SetTrainingContainer(r.gang.Inject(r.Context, role).TrainingContainers,
			role.Template.Spec.Containers[training].Name)
		for j, port := range role.Template.Spec.Containers[training].Ports {
			if r.portName != "" && port.Name == r.portName {
				ports := role.Source.At("spec", "containers").Item(training).Get("ports")
				r.convertPort(ports.Item(j), port.ContainerPort)
			}
		}
		c := &role.Template.Spec.Containers[training]
		ir.RemoveOverwrittenVars(c, r.listOverwrittenVars(role.Name), role.FindEnvField)
		role.RemoveInjectedVars(r.gang.Inject(r.Context, role), c.Name)
	}
}

// findContainer returns the index of the container with the given name, or 0 if there is none. The
// operators select the training container in this way.
func findContainer(spec *corev1.PodSpec, name string) int {
	return max(0, ir.FindContainer(spec, name))
}

// convertPort converts the rendezvous port of a role. The first port applies to the gang.
func (r *reader) convertPort(f source.Field, port int32) {
	if r.rendezvousPort == 0 {
		r.rendezvousPort = port
	}
	switch {
	case port != r.rendezvousPort:
		f.MarkChanged("annotation "+gang.AnnotationPort,
			fmt.Sprintf("a gang has one rendezvous port, and another role uses %d", r.rendezvousPort),
			"use the same port in all roles")
	case port == r.framework.Port:
		f.MarkPreserved("the default port of the framework")
	default:
		r.gang.SetAnnotation(gang.AnnotationPort, fmt.Sprint(port))
		f.MarkPreserved("annotation " + gang.AnnotationPort)
	}
}

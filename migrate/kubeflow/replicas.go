package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// maxPods bounds the pods of a role; it is the API server's bound for the parallelism of
// an Indexed Job (kubernetes pkg/apis/batch/validation, maxParallelismForIndexedJob).
const maxPods = 100_000

// replica is one replica spec, and the part that it describes.
type replica struct {
	part
	node ledger.Node
}

// replicas reads the replica specs into roles, in the order of their ranks.
func (r *reader) replicas() {
	found := r.replicaMap
	if r.Version == v1alpha1 {
		found = r.replicaList
	}
	for _, f := range found() {
		if role, ok := r.role(f); ok {
			r.blueprint.Roles = append(r.blueprint.Roles, role)
		}
	}
	if len(r.blueprint.Roles) == 0 && !r.spec.Mistaken() {
		r.spec.Required("no part of the job asks for pods; there is no gang without")
	}
}

// replicaMap finds the replica specs in the map that all versions but the first have.
func (r *reader) replicaMap() []replica {
	specs := r.spec.Get(r.job.replicas)
	r.at = specs
	sound := !specs.Mistaken()
	keys := specs.Keys()
	if len(keys) == 0 {
		if !sound || !specs.Mistaken() { // else it is of another type, and that was said
			specs.Required("there is no gang without replicas; they are " + r.partNames())
		}
		return nil
	}
	var out []replica
	for _, p := range r.parts {
		// The operators took any case until 1.8 (setTypeNameToCamelCase).
		for _, key := range keys {
			if strings.EqualFold(key, p.name) {
				out = append(out, replica{p, specs.Get(key)})
			}
		}
	}
	for i := 1; i < len(out); i++ {
		if out[i].name == out[i-1].name {
			out[i].node.Invalid(out[i].name + " is there twice, by names that differ in their case; remove one")
		}
	}
	for _, key := range keys {
		if !slices.ContainsFunc(r.parts, func(p part) bool { return strings.EqualFold(p.name, key) }) {
			specs.Get(key).Invalid(fmt.Sprintf("%s has no such replicas; they are %s", r.Kind, r.partNames()))
		}
	}
	return out
}

func (r *reader) partNames() string {
	var names []string
	for _, p := range r.parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// role reads one replica spec. It is false for one of no replicas, which is no part of
// the gang.
func (r *reader) role(s replica) (blueprint.Role, bool) {
	n := s.node
	role := blueprint.Role{Name: s.role, Set: s.set, Node: n.Get("template"), Keys: map[string]string{}, Former: r.former(s.part)}
	replicas := n.Get("replicas")
	role.Pods = 1
	if s.none {
		role.Pods = 0
	}
	role.Pods = ptr.Deref(replicas.Int32(), role.Pods)
	switch {
	case role.Pods < 0 || role.Pods > maxPods:
		replicas.Invalid(fmt.Sprintf("must be a number of pods from 0 to %d", maxPods))
		return role, false
	case s.one && role.Pods > 1:
		replicas.Invalid(fmt.Sprintf("a %s has one %s", r.Kind, s.name))
		return role, false
	case role.Pods == 0:
		n.Changed("", "left out: it asks for no pods", "")
		return role, false
	}
	replicas.Carried("the workload's number of pods")
	return role, r.template(&role, n)
}

// template reads a role's pod template.
func (r *reader) template(role *blueprint.Role, n ledger.Node) bool {
	if !role.Node.Exists() {
		role.Node.Required("the pods are made from it")
		return false
	}
	if !role.Node.Into(&role.Template) {
		return false
	}
	if len(role.Template.Spec.Containers) == 0 {
		role.Node.At("spec", "containers").Required("a pod has a container that trains; add one")
		return false
	}
	policy, inTemplate := n.Get("restartPolicy"), role.Node.At("spec", "restartPolicy")
	if r.Version == v1alpha1 {
		policy = inTemplate // there was no other
	} else if inTemplate.Exists() {
		inTemplate.Changed("", "left out: the operator overwrote it with the restartPolicy beside the template", "")
	}
	r.restarts = append(r.restarts, restart{role: role.Name, node: policy})
	return true
}

// former tells how the pods of a part were known: each had a Service of its name. Only
// those of the first version had a random word in their names, by which nobody could call
// them.
func (r *reader) former(p part) blueprint.Former {
	if r.Version == v1alpha1 {
		return blueprint.Former{Part: strings.ToLower(p.name)}
	}
	f := blueprint.Former{Part: strings.ToLower(p.name), Prefix: r.blueprint.Name + "-" + strings.ToLower(p.name) + "-", Alone: true}
	label := r.indexLabel
	if r.Version == v1 || r.Version == v2beta1 {
		label = "training.kubeflow.org/replica-index"
	}
	if label != "" {
		f.IndexField = "metadata.labels['" + label + "']"
	}
	return f
}

package kubeflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/migrate/ledger"
)

// replicaList finds the replica specs in the list that TFJob and PyTorchJob had at
// v1alpha1 (tf-operator v0.2, pkg/apis/tensorflow/v1alpha1/types.go; pytorch-operator
// v0.3, pkg/apis/pytorch/v1alpha1/types.go).
func (r *reader) replicaList() []replica {
	list := r.spec.Get("replicaSpecs")
	r.at = list
	items := list.Items()
	if len(items) == 0 {
		list.Required("there is no gang without replicas; at v1alpha1 they are a list")
		return nil
	}
	found := map[string]ledger.Node{}
	for _, item := range items {
		name := r.replicaType(item)
		if _, twice := found[name]; twice {
			item.Invalid(name + " is there twice; remove one")
			continue
		}
		found[name] = item
	}
	var out []replica
	for _, p := range r.parts {
		name := strings.ToLower(p.name)
		if n, ok := found[name]; ok {
			out = append(out, replica{p, n})
			delete(found, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		found[name].Invalid(fmt.Sprintf("%s has no replicas %q; they are %s", r.Kind, name, r.partNames()))
	}
	return out
}

// replicaType is the part that an item describes, in lower case. An item that does not
// say it is the master.
func (r *reader) replicaType(item ledger.Node) string {
	name := ""
	for _, key := range []string{"replicaType", "tfReplicaType", "pytorchReplicaType"} {
		n := item.Get(key)
		name = cmp.Or(name, n.String())
		n.Carried("the role")
	}
	return strings.ToLower(cmp.Or(name, "master"))
}

// alpha reads what only v1alpha1 has.
func (r *reader) alpha() {
	for _, item := range r.spec.Get("replicaSpecs").Items() {
		for _, key := range []string{"tfPort", "masterPort"} {
			n := item.Get(key)
			if port := n.Int32(); port != nil {
				r.carryPort(n, *port)
			}
		}
	}
	for _, key := range []string{"RuntimeId", "runtimeId"} {
		r.spec.Get(key).Changed("", "left out: it was a word of the operator's in the names of pods", "")
	}
	for _, key := range []string{"tfImage", "pytorchImage"} {
		r.spec.Get(key).Changed("", "left out: it was the image of replicas without a template, and all have one", "")
	}
	if name := r.spec.Get("schedulerName"); name.Exists() {
		for i := range r.blueprint.Roles {
			spec := &r.blueprint.Roles[i].Template.Spec
			spec.SchedulerName = cmp.Or(spec.SchedulerName, name.String())
		}
		name.Carried("spec.template.spec.schedulerName of each workload")
	}
	r.termination(r.spec.Get("terminationPolicy"))
}

// termination carries whose end was the end of the job: the master's, unless it names
// another pod.
func (r *reader) termination(n ledger.Node) {
	n.Only("chief", "master")
	for _, who := range []string{"chief", "master"} {
		chief := n.Get(who)
		if !chief.Exists() {
			continue
		}
		chief.Only("replicaName", "replicaIndex", "replicaRank")
		role := strings.ToLower(cmp.Or(chief.Get("replicaName").String(), "master"))
		index := cmp.Or(chief.Get("replicaIndex").IntOrString(), chief.Get("replicaRank").IntOrString(), "0")
		switch {
		case index == "0" && role == "master" && r.find(role) != nil:
			n.Carried("the master decides")
		case index == "0" && role == r.blueprint.Roles[0].Name:
			r.blueprint.Keys[gang.AnnotationSuccessPolicy] = gang.SuccessRank0
			n.Carried("annotation " + gang.AnnotationSuccessPolicy + ": " + gang.SuccessRank0)
		default:
			n.Lost(fmt.Sprintf("the end of %s %s alone cannot be the end of this gang", role, index),
				"set "+gang.AnnotationSuccessPolicy+" to rank0, or to a role all of whose pods have to end")
		}
	}
}

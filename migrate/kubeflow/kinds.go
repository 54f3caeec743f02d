package kubeflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// Group is the API group of all of Kubeflow's jobs but TrainJob.
const Group = "kubeflow.org"

// Versions of the group. All but the last two were those of the operators for one
// framework.
const (
	v1alpha1 = "v1alpha1"
	v1alpha2 = "v1alpha2"
	v1beta1  = "v1beta1"
	v1beta2  = "v1beta2"
	v1       = "v1"
	v2beta1  = "v2beta1"
)

// job is one kind of this group.
type job struct {
	// framework is the value of the label.
	framework string
	// versions are those that the kind has had.
	versions []string
	// replicas is the name of the field with the map of replica specs.
	replicas string
	// container is the name that the operator looks for among a template's containers;
	// empty where it takes the first.
	container string
	// portName and defaultPort are those of the container port of the rendezvous; empty where
	// there is none to choose.
	portName    string
	defaultPort int32
	// byDefault is the restart policy of a replica that names none.
	byDefault string
	// parts are the replica types in the order of their ranks.
	parts []part
	// indexLabel was the label of the pods with their index in the versions before v1;
	// empty where they had none.
	indexLabel string
	// sets are the variables that the operator sets in the pods of a role, whatever the
	// user wrote.
	sets func(r *reader, role string) []string
	// owns are the variables that Rollcall sets and that another value would contradict.
	owns []string
	// meets are those of them that a gang of one pod does not have, since it meets nobody.
	meets []string
	// everywhere is true where the operator sets them in all containers, and false where
	// it does in the one that trains.
	everywhere bool
	// read reads what only this kind has.
	read func(r *reader)
}

// part is one replica type.
type part struct {
	// name is the operator's word, such as Worker.
	name string
	// role is the framework's word in Rollcall.
	role string
	// set is true for a part that never ends by itself.
	set bool
	// one is true for a part that has no more than one pod.
	one bool
	// none is true for a part that has no pods where it names no number.
	none bool
}

// kinds are the kinds that can be migrated.
func kinds() map[string]job {
	return map[string]job{
		"PyTorchJob": pytorchJob(),
		"TFJob":      tfJob(),
		"MPIJob":     mpiJob(),
		"XGBoostJob": xgboostJob(),
		"PaddleJob":  paddleJob(),
		"JAXJob":     jaxJob(),
	}
}

// mxJob is the kind that has no successor.
const mxJob = "MXJob"

// errMXNet says why there is none: MXNet moved to the Apache Attic in September 2023, and
// kubeflow/trainer#2150 removed the kind.
var errMXNet = errors.New("an MXJob has no successor: Apache MXNet was retired in September 2023, training-operator dropped the kind in 1.9, " +
	"and Rollcall has no such framework; port the program to one that is maintained, such as PyTorch, and keep training-operator 1.8 for this job until then")

// Knows reports whether the kind is one of this package. The group has others, such as
// Notebook, that are no training jobs.
func Knows(kind string) bool {
	_, ok := kinds()[kind]
	return ok || kind == mxJob
}

// Read describes a job of one of Kubeflow's kinds. Mistakes of the manifest are in the
// node's ledger; the error is for a kind or a version that cannot be migrated.
func Read(o origin.Object) (*blueprint.Blueprint, error) {
	j, ok := kinds()[o.Kind]
	switch {
	case o.Kind == mxJob:
		return nil, errMXNet
	case !ok:
		return nil, fmt.Errorf("kind %s of %s: %w; known are %s", o.Kind, Group, origin.ErrUnknown, strings.Join(slices.Sorted(maps.Keys(kinds())), ", "))
	case !slices.Contains(j.versions, o.Version):
		return nil, fmt.Errorf("%s/%s of %s: %w; there are %s", Group, o.Version, o.Kind, origin.ErrUnknown, strings.Join(j.versions, ", "))
	}
	r := &reader{job: j, Object: o, spec: o.Root.Get("spec"), blueprint: o.Blueprint()}
	r.blueprint.Framework, r.blueprint.Marks = j.framework, r.marks()
	if o.Kind == "MPIJob" && o.Version == v1alpha1 {
		r.mpiAlpha()
	} else {
		r.replicas()
	}
	if len(r.blueprint.Roles) == 0 {
		return r.blueprint, nil // and said
	}
	r.containers()
	r.keeping()
	j.read(r)
	r.restartPolicies()
	r.ending()
	return r.blueprint, nil
}

// reader is the reading of one object.
type reader struct {
	job
	origin.Object
	spec      ledger.Node
	blueprint *blueprint.Blueprint
	// at is where the manifest describes the parts.
	at ledger.Node
	// asked is the rendezvous port that a part names; 0 while none has.
	asked int32
	// ports are where the manifest names it.
	ports []ledger.Node
	// restarts are the restart policies of the parts.
	restarts []restart
	// elastic is true for a gang whose number of pods may change while it runs.
	elastic bool
	// scaled is true for one that an autoscaler changes, which is a StatefulSet.
	scaled bool
	// relaunches is true where the operator's launcher is a Job of its own, which starts
	// it anew whatever its restart policy says.
	relaunches bool
}

// pods is the number of all pods.
func (r *reader) pods() int {
	n := 0
	for _, role := range r.blueprint.Roles {
		n += int(role.Pods)
	}
	return n
}

// find is the role of the given name; nil when the gang has none.
func (r *reader) find(role string) *blueprint.Role {
	for i := range r.blueprint.Roles {
		if r.blueprint.Roles[i].Name == role {
			return &r.blueprint.Roles[i]
		}
	}
	return nil
}

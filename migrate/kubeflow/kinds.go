package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
	"rollcall.training/migrate/origin"
)

// Group is the API group of all of Kubeflow's jobs but TrainJob.
const Group = "kubeflow.org"

// job is one kind of this group.
type job struct {
	// replicas is the name of the field with the map of replica specs.
	replicas string
	// container is the name that the operator looks for among a template's containers.
	container string
	// port is the name and the number of the container port of the rendezvous.
	portName string
	port     int32
	// byDefault is the restart policy of a replica that names none.
	byDefault string
	// overwrites are the variables that the operator sets whatever the user wrote.
	overwrites []string
	// parts are the replica types in the order of their ranks.
	parts []part
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
}

// kinds are the kinds that can be migrated.
func kinds() map[string]job {
	return map[string]job{
		"PyTorchJob": pytorchJob(),
	}
}

// versions are the API versions that the group has had for these kinds.
var versions = []string{"v1", "v1beta2", "v1beta1", "v1alpha2", "v2beta1"}

// Knows reports whether the kind is one of this package.
func Knows(kind string) bool {
	_, ok := kinds()[kind]
	return ok
}

// Read describes a job of one of Kubeflow's kinds. Mistakes of the manifest are in the
// node's ledger; the error is for a kind or a version that cannot be migrated.
func Read(o origin.Object) (*blueprint.Blueprint, error) {
	j, ok := kinds()[o.Kind]
	if !ok {
		return nil, fmt.Errorf("kind %s of %s: %w", o.Kind, Group, origin.ErrUnknown)
	}
	if !slices.Contains(versions, o.Version) {
		return nil, fmt.Errorf("version %q of %s is unknown; known are %s: %w", o.Version, o.Kind, strings.Join(versions, ", "), origin.ErrUnknown)
	}
	r := &reader{job: j, Object: o, spec: o.Root.Get("spec"), blueprint: o.Blueprint()}
	r.replicas()
	r.runPolicy()
	j.read(r)
	return r.blueprint, nil
}

// reader is the reading of one object.
type reader struct {
	job
	origin.Object
	spec      ledger.Node
	blueprint *blueprint.Blueprint
	// restarts are the restart policies of the parts.
	restarts []restart
}

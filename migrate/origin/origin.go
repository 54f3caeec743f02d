package origin

import (
	"errors"
	"maps"
	"slices"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// ErrUnknown is wrapped by errors about kinds and versions that cannot be migrated.
var ErrUnknown = errors.New("not known to this release")

// Object is a custom resource to be migrated.
type Object struct {
	// Group, Version and Kind are those of its apiVersion and kind.
	Group, Version, Kind string
	// Root is the object itself. Its ledger is the account of the migration.
	Root ledger.Node
	// Around is what else is known.
	Around Surroundings
}

// Surroundings are what a reader may want to know beside the object. The zero value
// is that of an object alone.
type Surroundings struct {
	// Runtime finds a TrainingRuntime or a ClusterTrainingRuntime as a tree of JSON; nil
	// when there is none. The namespace is empty for the latter.
	Runtime func(kind, namespace, name string) map[string]any
	// Scheduler is the gang scheduler of the cluster, which the former operators were
	// told by a flag.
	Scheduler Scheduler
	// Aliases says which former names of pods get a Service.
	Aliases blueprint.Aliases
	// Framework is the framework of jobs that do not say theirs, as the user named it;
	// empty when it is to be told from the job.
	Framework string
	// Alone tells the role that a framework gives to a workload alone; nil knows of none.
	Alone func(framework string) string
	// Texts are the contents of the ConfigMaps that came with the object and that it names.
	Texts []string
}

// Scheduler is a scheduler that places the pods of a gang all at once.
type Scheduler string

// The gang schedulers. The zero value means that there is none.
const (
	Volcano      Scheduler = "volcano"
	Coscheduling Scheduler = "coscheduling"
)

// serverFields are the metadata that the API server writes, and nobody wishes.
var serverFields = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink"}

// serverAnnotations are what clients keep in annotations about the object itself.
var serverAnnotations = []string{"kubectl.kubernetes.io/last-applied-configuration"}

// Name is the object's name; empty when it has none.
func (o Object) Name() string { return o.Root.At("metadata", "name").String() }

// Namespace is the object's namespace; empty when it names none.
func (o Object) Namespace() string { return o.Root.At("metadata", "namespace").String() }

// Blueprint begins the description of the gang with what all kinds have: its name,
// its labels and annotations.
func (o Object) Blueprint() *blueprint.Blueprint {
	meta := o.Root.Get("metadata")
	b := &blueprint.Blueprint{
		Name: o.Name(), Namespace: o.Namespace(), Node: o.Root, Keys: map[string]string{},
		Aliases: o.Around.Aliases, Texts: o.Around.Texts, Alone: o.Around.Alone,
	}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		o.Root.Get(name).Ignore()
	}
	for _, name := range serverFields {
		meta.Get(name).Ignore()
	}
	if b.Name == "" {
		if g := meta.Get("generateName"); g.Exists() {
			g.Invalid("the pods' addresses contain the name, so it must be known before; write metadata.name")
		} else {
			meta.Get("name").Required("the workloads are named after it")
		}
	}
	meta.Get("name").Carried("the gang's name")
	meta.Get("namespace").Carried("metadata.namespace")
	meta.Get("finalizers").Lost("they keep the former object for a controller that knows it", "")
	meta.Get("ownerReferences").Lost("an owner is named by its uid, and would take the workloads with it", "set them on the new workloads if the owner shall keep them")
	b.Labels = meta.Get("labels").StringMap()
	meta.Get("labels").Carried("labels of each workload")
	b.Annotations = userAnnotations(meta.Get("annotations"))
	return b
}

func userAnnotations(n ledger.Node) map[string]string {
	all := n.StringMap()
	for _, key := range serverAnnotations {
		n.Get(key).Ignore()
		delete(all, key)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		n.Get(key).Carried("annotation of each workload")
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

package ir

import (
	"maps"
	"slices"

	"rollcall.training/internal/migrate/source"
)

// serverManagedFields are the metadata fields that the API server writes.
var serverManagedFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "managedFields", "selfLink",
}

// clientAnnotations are annotations in which clients store data about the object itself.
var clientAnnotations = []string{"kubectl.kubernetes.io/last-applied-configuration"}

// NewGang returns a Gang with the fields that all kinds have: name, namespace, labels and
// annotations.
func NewGang(o source.Object) *Gang {
	meta := o.Root.Get("metadata")
	b := &Gang{
		Name: o.Name(), Namespace: o.Namespace(), Source: o.Root, RollcallAnnotations: map[string]string{},
		Aliases: o.Context.Aliases, ConfigMapTexts: o.Context.ConfigMapTexts, Frameworks: o.Context.Frameworks,
	}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		o.Root.Get(name).MarkHandled()
	}
	for _, name := range serverManagedFields {
		meta.Get(name).MarkHandled()
	}
	if b.Name == "" {
		if g := meta.Get("generateName"); g.Exists() {
			g.MarkInvalid("hostnames of the pods contain the name, so it must be fixed; set metadata.name")
		} else {
			meta.Get("name").MarkRequired("the names of the workloads start with it")
		}
	}
	meta.Get("name").MarkPreserved("the name of the gang")
	meta.Get("namespace").MarkPreserved("metadata.namespace")
	meta.Get("finalizers").MarkDropped("the finalizers are for a controller of the source object", "")
	meta.Get("ownerReferences").MarkDropped("the garbage collector would delete the workloads with the owner",
		"set ownerReferences on the new workloads if the owner must keep them")
	b.Labels = meta.Get("labels").StringMap()
	meta.Get("labels").MarkPreserved("labels of each workload")
	b.Annotations = readUserAnnotations(meta.Get("annotations"))
	return b
}

func readUserAnnotations(f source.Field) map[string]string {
	all := f.StringMap()
	for _, key := range clientAnnotations {
		f.Get(key).MarkHandled()
		delete(all, key)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		f.Get(key).MarkPreserved("annotation of each workload")
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

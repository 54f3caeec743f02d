package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/internal/manifest"
)

// outputNames maps each object of the output to a description of its source.
type outputNames map[identity]string

// identity identifies an object in a cluster. Objects without a namespace are assumed to be applied
// to the same namespace.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func objectIdentity(o manifest.Object) identity {
	gv, _ := schema.ParseGroupVersion(o.APIVersion) // the API server reports an invalid version
	return identity{schema.GroupKind{Group: gv.Group, Kind: o.Kind}, o.Namespace, o.Name}
}

// addPassthrough adds the objects that pass through.
func (n outputNames) addPassthrough(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			if !isMigratable(o) && o.Name != "" {
				n[objectIdentity(o)] = d.String()
			}
		}
	}
}

// claimNames adds the workloads of a job. If another object has the same name, the job is not
// migrated, because the second object would overwrite the first one in the cluster.
func (n outputNames) claimNames(docs []*manifest.Document, report Report) ([]*manifest.Document, Report) {
	var claimed []identity
	for _, d := range docs {
		for _, o := range d.Objects() {
			id := objectIdentity(o)
			if other, taken := n[id]; taken {
				report.Errors = append(report.Errors, fmt.Sprintf(
					"the name of %s %s exists already: %s; rename one of the two", o.Kind, o.Name, other))
			}
			claimed = append(claimed, id)
		}
	}
	if report.Failed() {
		report.Outputs = nil
		return nil, report
	}
	for _, id := range claimed {
		n[id] = fmt.Sprintf("%s of %s, document %d", report.Object, report.Source, report.Document)
	}
	return docs, report
}

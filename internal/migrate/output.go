package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// pruneEmptyFields returns the object without the empty fields that Go types always encode. It
// removes only fields for which empty and absent have the same meaning. An empty emptyDir, for
// example, is not such a field.
func pruneEmptyFields(obj runtime.Object) (*unstructured.Unstructured, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	if spec, ok := tree["spec"].(map[string]any); ok {
		deleteIfEmpty(spec, "updateStrategy")
	}
	if template, ok, _ := unstructured.NestedMap(tree, "spec", "template"); ok {
		deleteIfEmpty(template, "metadata")
		spec, _ := template["spec"].(map[string]any)
		for _, list := range []string{"initContainers", "containers"} {
			containers, _ := spec[list].([]any)
			for _, c := range containers {
				if c, ok := c.(map[string]any); ok {
					deleteIfEmpty(c, "resources")
				}
			}
		}
		if err := unstructured.SetNestedMap(tree, template, "spec", "template"); err != nil {
			return nil, fmt.Errorf("encoding %T: %w", obj, err)
		}
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

func deleteIfEmpty(tree map[string]any, key string) {
	if m, ok := tree[key].(map[string]any); ok && len(m) == 0 {
		delete(tree, key)
	}
}

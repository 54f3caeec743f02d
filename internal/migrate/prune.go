package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

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

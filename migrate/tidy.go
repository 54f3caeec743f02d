package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// tidy returns the object as a person would write it: Go's types write some fields that
// hold nothing. Only those are left out of which it is known that empty and absent are
// the same; an emptyDir of {} is not.
func tidy(obj runtime.Object) (*unstructured.Unstructured, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("writing %T: %w", obj, err)
	}
	if spec, ok := tree["spec"].(map[string]any); ok {
		dropEmpty(spec, "updateStrategy")
	}
	if template, ok, _ := unstructured.NestedMap(tree, "spec", "template"); ok {
		dropEmpty(template, "metadata")
		spec, _ := template["spec"].(map[string]any)
		for _, list := range []string{"initContainers", "containers"} {
			containers, _ := spec[list].([]any)
			for _, c := range containers {
				if c, ok := c.(map[string]any); ok {
					dropEmpty(c, "resources")
				}
			}
		}
		if err := unstructured.SetNestedMap(tree, template, "spec", "template"); err != nil {
			return nil, fmt.Errorf("writing %T: %w", obj, err)
		}
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

func dropEmpty(tree map[string]any, key string) {
	if m, ok := tree[key].(map[string]any); ok && len(m) == 0 {
		delete(tree, key)
	}
}

package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// uid replaces the UID of an API server. Operators copy it into labels and owner references.
const uid = types.UID("00000000-0000-0000-0000-000000000001")

// ReadManifest reads the objects of a YAML file and gives each of them the same UID.
func ReadManifest(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(o.Object) > 0 {
			o.SetUID(uid)
			objects = append(objects, o)
		}
	}
}

// Strict converts an object to the operator's Go type. A field that the type does not have is an
// error. The API server would prune it silently.
func Strict(o *unstructured.Unstructured, into any) error {
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Definitions are CustomResourceDefinitions. The API server applies their defaults before the
// operator observes an object.
type Definitions map[string]*structuralschema.Structural

// ReadDefinitions reads the definitions in the files that match the glob pattern.
func ReadDefinitions(pattern string) (Definitions, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	definitions := Definitions{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f, err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Schema == nil {
				continue
			}
			var internal apiextensions.JSONSchemaProps
			err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
				v.Schema.OpenAPIV3Schema, &internal, nil,
			)
			if err != nil {
				return nil, fmt.Errorf("converting the schema of %s: %w", crd.Name, err)
			}
			s, err := structuralschema.NewStructural(&internal)
			if err != nil {
				return nil, fmt.Errorf("reading the schema of %s: %w", crd.Name, err)
			}
			definitions[crd.Spec.Group+"/"+v.Name+"/"+crd.Spec.Names.Kind] = s
		}
	}
	if len(definitions) == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinition matches %s", pattern)
	}
	return definitions, nil
}

// Default applies the defaults of the object's definition to it.
func (d Definitions) Default(o *unstructured.Unstructured) error {
	s := d[o.GetAPIVersion()+"/"+o.GetKind()]
	if s == nil {
		return fmt.Errorf("no CustomResourceDefinition for %s %s", o.GetAPIVersion(), o.GetKind())
	}
	// The defaulter requires the Go types of decoded JSON.
	o.Object = runtime.DeepCopyJSON(o.Object)
	defaulting.Default(o.Object, s)
	return nil
}

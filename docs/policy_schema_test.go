package docs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

// schemasOfScalars are the schemas of types that are not decoded field by field. YAML 1.1 reads off
// without quotes as a boolean.
var schemasOfScalars = map[reflect.Type]map[string]any{
	reflect.TypeFor[policy.Mode](): {
		"enum": []any{policy.ModeEnforce, policy.ModeWarn, policy.ModeAudit, policy.ModeOff, false},
	},
	reflect.TypeFor[policy.Duration]():    {"type": "string"},
	reflect.TypeFor[resource.Quantity]():  {"type": []string{"string", "number"}},
	reflect.TypeFor[intstr.IntOrString](): {"type": []string{"string", "integer"}},
}

// describeType returns the JSON schema of a type. Objects are closed: a misspelled key is a mistake.
func describeType(t *testing.T, of reflect.Type) map[string]any {
	t.Helper()
	if schema, ok := schemasOfScalars[of]; ok {
		return schema
	}
	switch of.Kind() {
	case reflect.Pointer:
		return describeType(t, of.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describeType(t, of.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describeType(t, of.Elem())}
	case reflect.Struct:
		if strings.HasPrefix(of.Name(), "DefaultValue[") {
			return describeDefault(t, of)
		}
		properties, required := map[string]any{}, []string{}
		describeFields(t, of, properties, &required)
		schema := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
		if len(required) > 0 {
			schema["required"] = required
		}
		return schema
	}
	t.Fatalf("%s has no schema", of)
	return nil
}

// describeDefault returns the schema of a default: the value, or an object with the value.
func describeDefault(t *testing.T, of reflect.Type) map[string]any {
	t.Helper()
	field, ok := of.FieldByName("Value")
	if !ok {
		t.Fatalf("%s has no value", of)
	}
	value := describeType(t, field.Type)
	return map[string]any{"anyOf": []any{value, map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"value"},
		"properties": map[string]any{"value": value, "locked": map[string]any{"type": "boolean"}},
	}}}
}

// TestChartUnlabeled generates the admission policies for unlabeled workloads, which the chart completes with
// the values of the policy.
func TestChartUnlabeled(t *testing.T) {
	const file = "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind +
		"\nunlabeled: {multiPodGPU: {kinds: [Job, StatefulSet]}, optOut: {}}\n"
	p, problems := policy.Read("policy.yaml", []byte(file), injectors.Builtin().Frameworks())
	if p == nil {
		t.Fatal(problems)
	}
	type item struct {
		Name  string `json:"name"`
		Limit string `json:"limit"`
		Kind  string `json:"kind,omitempty"`
		Spec  any    `json:"spec"`
	}
	var items []item
	for i, rendered := range p.RenderUnlabeled(false) {
		next := item{Name: rendered.Policy.Name, Limit: "optOut", Spec: rendered.Policy.Spec}
		if i < 2 {
			next.Limit, next.Kind = "multiPodGPU", []string{"Job", "StatefulSet"}[i]
		}
		items = append(items, next)
	}
	text, err := json.MarshalIndent(items, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, "../charts/rollcall/files/unlabeled.json", append(text, '\n'))
}

// describeFields adds the fields of a struct and of its embedded structs.
func describeFields(t *testing.T, of reflect.Type, properties map[string]any, required *[]string) {
	t.Helper()
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			describeFields(t, field.Type, properties, required)
		case !field.IsExported() || name == "-":
		case name == "":
			t.Fatalf("%s.%s has no name in JSON: the type decodes itself and needs a schema of its own", of, field.Name)
		default:
			properties[name] = describeType(t, field.Type)
			if !strings.Contains(options, "omitempty") {
				*required = append(*required, name)
			}
		}
	}
}

// TestPolicySchema checks that the schema of the chart for the value policy.file is that of the type of
// the file. The chart adds apiVersion and kind.
func TestPolicySchema(t *testing.T) {
	schema := describeType(t, reflect.TypeFor[policy.File]())
	delete(schema, "required")
	properties := schema["properties"].(map[string]any)
	properties["apiVersion"] = map[string]any{"const": policy.APIVersion}
	properties["kind"] = map[string]any{"const": policy.Kind}
	text, err := json.MarshalIndent(schema, "    ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const path, start, end = "../charts/rollcall/values.schema.json", "    \"gangPolicy\": ", "\n  }\n}\n"
	values, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := bytes.Cut(values, []byte(start))
	if !found {
		t.Fatalf("%s has no definition gangPolicy", path)
	}
	checkPage(t, path, bytes.Join([][]byte{before, []byte(start), text, []byte(end)}, nil))
}

package docs_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
	"rollcall.training/internal/vet"
)

// schemaDialect is the dialect of the schemas, which all editors know.
const schemaDialect = "http://json-schema.org/draft-07/schema#"

// literalList matches a description of values that lists all of them.
var literalList = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")

// describeKey returns the schema of a label or an annotation. A framework of another build is valid.
func describeKey(k gang.Key) map[string]any {
	schema := map[string]any{"type": "string", "description": k.Description}
	if gang.IsWrittenByRollcall(k.Name) {
		schema["description"] = k.Description + " Only Rollcall sets it."
		return schema
	}
	schema["description"] = k.Description + "\n\nValues: " + k.Values + "\n\nDefault: " + k.Default
	switch {
	case k.Name == gang.LabelFramework:
		schema["anyOf"] = []any{
			map[string]any{"enum": injectors.Builtin().Frameworks().Names()}, map[string]any{"type": "string"},
		}
	case literalList.MatchString(k.Values):
		schema["enum"] = strings.Split(strings.ReplaceAll(k.Values, "`", ""), ", ")
	}
	return schema
}

// describeKeys returns the schema of all labels or annotations of an object. Keys of other domains are free, and
// other keys of Rollcall are mistakes.
func describeKeys(kind gang.KeyKind) map[string]any {
	properties, names := map[string]any{}, []string{}
	for _, k := range gang.Keys() {
		if k.Kind == kind {
			properties[k.Name] = describeKey(k)
			names = append(names, k.Name)
		}
	}
	if kind == gang.KeyKindAnnotation {
		for _, c := range vet.Checks() {
			name := vet.SuppressionPrefix + string(c.Code)
			properties[name] = map[string]any{
				"type": "string", "minLength": 1,
				"description": "The reason why the check does not apply. The check: " + c.Title + ".",
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	isOther := map[string]any{"not": map[string]any{"pattern": `^(vet\.)?` + regexp.QuoteMeta(gang.Prefix)}}
	return map[string]any{
		"type": "object", "properties": properties,
		"propertyNames": map[string]any{"anyOf": []any{map[string]any{"enum": names}, isOther}},
	}
}

// describeKind returns the condition that an object of the kinds has a schema.
func describeKind(kinds []string, then map[string]any) map[string]any {
	return map[string]any{
		"if": map[string]any{
			"required":   []string{"kind"},
			"properties": map[string]any{"kind": map[string]any{"enum": kinds}},
		},
		"then": map[string]any{"properties": then},
	}
}

// TestEditorSchemas generates the schemas with which editors complete and check manifests and policy files.
func TestEditorSchemas(t *testing.T) {
	t.Parallel()
	metadata := map[string]any{"$ref": "#/definitions/metadata"}
	template := map[string]any{"properties": map[string]any{"metadata": metadata}}
	workload := map[string]any{
		"$schema": schemaDialect, "title": "Labels and annotations of Rollcall",
		"type": "object",
		"allOf": []any{
			describeKind([]string{"Job", "StatefulSet"}, map[string]any{"metadata": metadata}),
			describeKind([]string{"CronJob"}, map[string]any{
				"spec": map[string]any{"properties": map[string]any{"jobTemplate": template}},
			}),
		},
		"definitions": map[string]any{"metadata": map[string]any{"properties": map[string]any{
			"labels":      describeKeys(gang.KeyKindLabel),
			"annotations": describeKeys(gang.KeyKindAnnotation),
		}}},
	}
	file := describeType(t, reflect.TypeFor[policy.File]())
	properties := file["properties"].(map[string]any)
	properties["apiVersion"] = map[string]any{"const": policy.APIVersion}
	properties["kind"] = map[string]any{"const": policy.Kind}
	file["required"] = []string{"apiVersion", "kind"}
	file["$schema"], file["title"] = schemaDialect, "Policy of Rollcall"
	for path, schema := range map[string]any{
		"reference/schemas/workload.json": workload, "reference/schemas/policy.json": file,
	} {
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		checkPage(t, path, append(text, '\n'))
	}
}

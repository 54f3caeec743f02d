package vet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

func ofInput() []Check {
	return []Check{
		{
			Code: CodeUnreadable, Severity: Error,
			Title: "A document is no valid YAML or JSON",
			Why:   "kubectl refuses the file, and nothing of the document can be checked. A key that stands twice counts too: the last one would win in silence. The exit code is 2.",
			Fix:   "Mend the text on the line that is named.",
		},
		{
			Code: CodeUndecodable, Severity: Error, object: undecodable,
			Title: "A labelled workload has a value of the wrong type",
			Why:   "The API server cannot read it as a Job or StatefulSet, and refuses it.",
			Fix:   "Give the field a value of its type; annotations and variables are text, so numbers in them want quotes.",
		},
		{
			Code: CodeDuplicate, Severity: Warning, object: duplicate,
			Title: "A labelled workload stands twice in one file",
			Why:   "kubectl apply applies both, one after the other: the last one wins, or is refused since a Job's template cannot change. Files of different names are not compared, as overlays repeat names on purpose.",
			Fix:   "Rename one of the two, or take it away.",
		},
	}
}

func undecodable(_ *input, s *subject) []remark {
	if s.unread == nil || s.member == nil {
		return nil
	}
	var tree map[string]any
	if err := s.read.Decode(&tree); err != nil {
		return say("", "%v", err).do("")
	}
	out := quantities("", "", tree)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(s.unread, &wrong):
		have, want := jsonType(wrong.Value), goType(wrong)
		r := remark{field: s.read.FieldAt(wrong.Offset), message: fmt.Sprintf("it is a %s, and has to be a %s", have, want)}
		if want == "string" && (have == "number" || have == "boolean") {
			r.fix = "put it in quotes"
		}
		out = append(out, r)
	case len(out) == 0:
		return say("", "%v", s.unread).do("")
	}
	return out
}

// quantities finds what cannot be read as a quantity where one has to be: their type says
// so itself, without a place.
func quantities(path, parent string, v any) []remark {
	var out []remark
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if strings.ContainsAny(key, "./[]") {
				at = path + "[" + key + "]"
			}
			text, isText := v[key].(string)
			isQuantity := parent == "limits" || parent == "requests" || key == "sizeLimit"
			if _, err := resource.ParseQuantity(text); isText && isQuantity && err != nil {
				out = append(out, say(at, "%q is no quantity", text).do("write a number with one of the endings m, k, M, G, T, Ki, Mi, Gi, Ti, or none")...)
			}
			out = append(out, quantities(at, key, v[key])...)
		}
	case []any:
		for i, item := range v {
			out = append(out, quantities(fmt.Sprintf("%s[%d]", path, i), "", item)...)
		}
	}
	return out
}

// jsonType names a value as users of YAML do.
func jsonType(value string) string {
	switch kind, _, _ := strings.Cut(value, " "); kind { // a number comes with its text
	case "array":
		return "list"
	case "object":
		return "mapping"
	case "bool":
		return "boolean"
	default:
		return kind
	}
}

// goType names a type as users of YAML do.
func goType(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind().String(); kind {
	case "int", "int32", "int64", "uint16", "uint32":
		return "whole number"
	case "slice":
		return "list"
	case "map", "struct":
		return "mapping"
	case "bool":
		return "boolean, true or false"
	default:
		return kind
	}
}

func duplicate(in *input, s *subject) []remark {
	first := in.find(s.Kind, s.namespace, s.Name)
	if s.member == nil || s.Name == "" || first == s || first.Document.Source != s.Document.Source {
		return nil
	}
	return say("metadata.name", "line %d has another %s with this name", first.Line("metadata.name"), s.Kind).do("rename one of the two, or take it away")
}

package manifest

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// listObjects returns the object with the JSON of the argument, or the items of a list instead, including items of
// nested lists. The kind of the argument is the default for an object without one: the items of a JobList need no type.
// listObjects omits values that are not mappings, because they are not Kubernetes objects.
func listObjects(o Object) []Object {
	var head struct {
		APIVersion any             `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   any             `json:"metadata"`
		Items      json.RawMessage `json:"items"`
	}
	if json.Unmarshal(o.JSON, &head) != nil {
		return nil
	}
	o.Kind = cmp.Or(head.Kind, o.Kind)
	itemKind, hasListKind := strings.CutSuffix(o.Kind, "List")
	var items []json.RawMessage
	if !hasListKind || json.Unmarshal(head.Items, &items) != nil {
		meta, _ := head.Metadata.(map[string]any)
		o.APIVersion = stringOrEmpty(head.APIVersion)
		o.Namespace, o.Name = stringOrEmpty(meta["namespace"]), stringOrEmpty(meta["name"])
		o.Labels, o.Annotations = stringMap(meta["labels"]), stringMap(meta["annotations"])
		return []Object{o}
	}
	var objects []Object
	for i, text := range items {
		objects = append(objects, listObjects(Object{
			Document: o.Document, Kind: itemKind, JSON: text, jsonPointer: o.jsonPointer + "/items/" + strconv.Itoa(i),
		})...)
	}
	return objects
}

// SplitList returns one document for each object of a list, including objects of nested lists. It
// returns the document itself if the document is not a list, is an empty list, or has no content.
func (d *Document) SplitList() []*Document {
	var docs []*Document
	for _, o := range listObjects(Object{JSON: d.jsonText}) {
		if o.jsonPointer == "" {
			return []*Document{d}
		}
		docs = append(docs, &Document{
			Source:    d.Source,
			Number:    d.Number,
			StartLine: d.StartLine,
			jsonText:  setDefaultKind(o.JSON, o.Kind),
			modified:  true,
		})
	}
	if len(docs) == 0 {
		return []*Document{d}
	}
	return docs
}

// setDefaultKind sets the kind of an object that has none. It returns the text unchanged if the object
// has a kind or is not a mapping.
func setDefaultKind(text []byte, kind string) []byte {
	var tree map[string]json.RawMessage
	if json.Unmarshal(text, &tree) != nil || tree["kind"] != nil {
		return text
	}
	tree["kind"], _ = json.Marshal(kind) // neither a string nor decoded JSON fails
	text, _ = json.Marshal(tree)
	return text
}

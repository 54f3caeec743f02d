package manifest

import (
	"encoding/json"
	"strconv"
	"strings"
)

// rawObject is an object of a document before it is decoded.
type rawObject struct {
	// pointer is the JSON pointer (RFC 6901) of the object in the document. It is empty if the object
	// is the document.
	pointer string
	// kind is the kind of the object. It is empty if neither the object nor its list has one.
	kind string
	// text is the JSON of the object.
	text []byte
}

// rawObjects returns the objects of the document, including items of lists and of nested lists. It
// omits values that are not mappings, because they are not Kubernetes objects.
func (d *Document) rawObjects() []rawObject {
	if d.jsonText == nil {
		return nil
	}
	return listRawObjects(rawObject{text: d.jsonText})
}

// listRawObjects returns an object, or the items of a list instead. The kind of the object is the default
// for an object without one: the items of a JobList need no type.
func listRawObjects(object rawObject) []rawObject {
	var head struct {
		Kind  string          `json:"kind"`
		Items json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(object.text, &head); err != nil {
		return nil
	}
	if head.Kind != "" {
		object.kind = head.Kind
	}
	itemKind, hasListKind := strings.CutSuffix(object.kind, "List")
	var items []json.RawMessage
	if !hasListKind || json.Unmarshal(head.Items, &items) != nil {
		return []rawObject{object}
	}
	var objects []rawObject
	for i, text := range items {
		item := rawObject{pointer: object.pointer + "/items/" + strconv.Itoa(i), kind: itemKind, text: text}
		objects = append(objects, listRawObjects(item)...)
	}
	return objects
}

// SplitList returns one document for each object of a list, including objects of nested lists. It
// returns the document itself if the document is not a list, is an empty list, or has no content.
func (d *Document) SplitList() []*Document {
	var docs []*Document
	for _, object := range d.rawObjects() {
		if object.pointer == "" {
			return []*Document{d}
		}
		docs = append(docs, &Document{
			Source:    d.Source,
			Number:    d.Number,
			StartLine: d.StartLine,
			jsonText:  setDefaultKind(object.text, object.kind),
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
	kindText, err := json.Marshal(kind)
	if err != nil {
		return text // encoding a string does not fail
	}
	tree["kind"] = kindText
	withKind, err := json.Marshal(tree)
	if err != nil {
		return text // encoding decoded JSON does not fail
	}
	return withKind
}

package manifest

import "encoding/json"

// Parts takes a list apart, and lists of lists: one document for each object, with the
// text that it has there. A document that is no list is its only part.
func (d *Document) Parts() []*Document {
	var out []*Document
	_ = d.walk(func(path, kind string, text []byte) error { // looking cannot fail
		if path == "" {
			out = append(out, d)
			return nil
		}
		out = append(out, &Document{Source: d.Source, Number: d.Number, Start: d.Start, json: withKind(text, kind), changed: true})
		return nil
	})
	if len(out) == 0 {
		return []*Document{d} // comments alone, or an empty list
	}
	return out
}

// withKind gives an item the kind that its list says for it.
func withKind(text []byte, kind string) []byte {
	var tree map[string]json.RawMessage
	if json.Unmarshal(text, &tree) != nil || tree["kind"] != nil {
		return text
	}
	name, err := json.Marshal(kind)
	if err != nil {
		return text // a string always can be
	}
	tree["kind"] = name
	full, err := json.Marshal(tree)
	if err != nil {
		return text // it came from JSON
	}
	return full
}

package migrate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/manifest"
)

// configMaps are the contents of ConfigMaps by their names. Scripts in them may call pods
// by their former names.
type configMaps map[string][]string

func (c configMaps) gather(docs []*manifest.Document) {
	for _, d := range docs {
		for _, o := range d.Objects() {
			var m corev1.ConfigMap
			if o.Kind != "ConfigMap" || o.Decode(&m) != nil {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(m.Data)) {
				c[m.Name] = append(c[m.Name], m.Data[key])
			}
		}
	}
}

// named are the contents of those ConfigMaps whose names stand in an object, wherever
// that is: a job sees the scripts that it mounts, and not all of a large input.
func (c configMaps) named(objects ...[]byte) []string {
	found := map[string]bool{}
	for _, text := range objects {
		dec := json.NewDecoder(bytes.NewReader(text))
		for {
			token, err := dec.Token()
			if err != nil {
				break // its end, since it was read before
			}
			if word, ok := token.(string); ok && c[word] != nil {
				found[word] = true
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, c[name]...)
	}
	return out
}

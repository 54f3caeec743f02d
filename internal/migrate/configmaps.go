package migrate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/manifest"
)

// configMapTexts are the values of ConfigMaps by the names of the ConfigMaps. Scripts in them can
// contain former pod names.
type configMapTexts map[string][]string

func (c configMapTexts) addDocuments(docs []*manifest.Document) {
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

// findReferenced returns the values of the ConfigMaps whose names are strings in the objects. A job
// thereby sees the scripts that it mounts, and not those of other jobs.
func (c configMapTexts) findReferenced(objects ...[]byte) []string {
	found := map[string]bool{}
	for _, text := range objects {
		decoder := json.NewDecoder(bytes.NewReader(text))
		for {
			token, err := decoder.Token()
			if err != nil {
				break // the end: the text was parsed before
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

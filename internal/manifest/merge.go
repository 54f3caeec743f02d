package manifest

import (
	"bytes"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// resolveMergeKeys converts a document to JSON if its mappings override keys that they merge (<<). The
// strict parser rejects such keys as duplicates. It returns false if the document has no merge keys,
// or if it has duplicate keys nevertheless. The error of the strict parser is correct then.
func resolveMergeKeys(raw []byte) ([]byte, bool) {
	if !bytes.Contains(raw, []byte("<<")) {
		return nil, false
	}
	var tree yaml.Node
	if yaml.Unmarshal(raw, &tree) != nil || hasDuplicateKey(&tree) {
		return nil, false
	}
	text, err := kyaml.YAMLToJSON(raw)
	return text, err == nil
}

// hasDuplicateKey reports whether a mapping contains a key twice.
func hasDuplicateKey(n *yaml.Node) bool {
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return true
			}
			seen[child.Value] = true
		}
		if hasDuplicateKey(child) {
			return true
		}
	}
	return false
}

package manifest

import (
	"bytes"
	"fmt"

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
	if yaml.Unmarshal(raw, &tree) != nil || findDuplicateKey(&tree) != nil {
		return nil, false
	}
	text, err := kyaml.YAMLToJSON(raw)
	return text, err == nil
}

// findDuplicateKey returns an error for the first key that a mapping contains twice.
func findDuplicateKey(n *yaml.Node) error {
	seen := map[string]bool{}
	for i, child := range n.Content {
		isKey := n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode
		if isKey && seen[child.Value] {
			return fmt.Errorf("duplicate key %q", child.Value)
		}
		if isKey {
			seen[child.Value] = true
		}
		if err := findDuplicateKey(child); err != nil {
			return err
		}
	}
	return nil
}

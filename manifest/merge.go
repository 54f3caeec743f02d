package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// overrides reads a document whose mappings override keys that they merge in (<<), which
// the strict parser takes for keys that stand twice. It is false where none does, or where
// a key stands twice all the same; the strict parser's word holds then.
func overrides(raw []byte) ([]byte, bool) {
	if !bytes.Contains(raw, []byte("<<")) {
		return nil, false
	}
	var tree yaml.Node
	if yaml.Unmarshal(raw, &tree) != nil || repeated(&tree) != nil {
		return nil, false
	}
	text, err := kyaml.YAMLToJSON(raw)
	return text, err == nil
}

// repeated finds a key that stands twice in one mapping.
func repeated(n *yaml.Node) error {
	seen := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return fmt.Errorf("key %q stands twice", child.Value)
			}
			seen[child.Value] = true
		}
		if err := repeated(child); err != nil {
			return err
		}
	}
	return nil
}

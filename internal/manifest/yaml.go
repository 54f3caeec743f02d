package manifest

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// checkAliasSize returns an error if a document has more than maxBytes bytes after its aliases
// (*name) are expanded, or if an alias contains itself. The YAML parser limits the number of values
// that aliases expand to, but not their size: many aliases of one long text pass.
func checkAliasSize(raw []byte, maxBytes int) error {
	if !bytes.Contains(raw, []byte("&")) || !bytes.Contains(raw, []byte("*")) {
		return nil
	}
	var tree yaml.Node // keeps aliases as nodes
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil //nolint:nilerr // parseYAML reports syntax errors
	}
	sizes := aliasSizes{computed: map[*yaml.Node]int{}, inProgress: map[*yaml.Node]bool{}}
	size, err := sizes.sizeOf(&tree)
	if err == nil && size > maxBytes {
		err = fmt.Errorf("yaml: the document has more than %d KiB after its aliases are expanded; use fewer aliases",
			maxBytes>>10)
	}
	return err
}

// aliasSizes holds the size of each value in bytes after expansion. The size of a value is computed
// once, so the total time is linear in the length of the text.
type aliasSizes struct {
	computed   map[*yaml.Node]int
	inProgress map[*yaml.Node]bool
}

var errSelfReference = errors.New("contains itself")

// sizeOf returns the size of a value. Sizes above 2*[MaxBytes] are truncated to that, so that sums do
// not overflow.
func (s aliasSizes) sizeOf(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		if s.inProgress[n.Alias] {
			return 0, fmt.Errorf("yaml: line %d: the value of anchor &%s %w", n.Line, n.Value, errSelfReference)
		}
		return s.sizeOf(n.Alias)
	}
	if size, ok := s.computed[n]; ok {
		return size, nil
	}
	s.inProgress[n] = true
	size := len(n.Value) + len(`"",`)
	for _, child := range n.Content {
		childSize, err := s.sizeOf(child)
		if err != nil {
			return 0, err
		}
		size = min(size+childSize, 2*MaxBytes)
	}
	delete(s.inProgress, n)
	s.computed[n] = size
	return size, nil
}

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

package manifest

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// expandable refuses a document whose aliases (*name) stand for more than [Limit] bytes
// together, or that contain themselves. The parser bounds the number of values that it
// makes of aliases, and not their size: a long text and many aliases of it pass.
func expandable(raw []byte) error {
	if !bytes.Contains(raw, []byte("&")) || !bytes.Contains(raw, []byte("*")) {
		return nil
	}
	var tree yaml.Node // does not follow aliases
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil //nolint:nilerr // the parser says so itself
	}
	s := sizes{known: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
	n, err := s.of(&tree)
	if err == nil && n > Limit {
		err = fmt.Errorf("yaml: the aliases of the document stand for more than %d MiB; write less of it by aliases", Limit>>20)
	}
	return err
}

// sizes are the lengths of the values with all aliases written out. Each is counted
// once, so that it takes as long as the text has values.
type sizes struct {
	known map[*yaml.Node]int
	open  map[*yaml.Node]bool
}

var errWithin = errors.New("contains itself")

func (s sizes) of(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		if s.open[n.Alias] {
			return 0, fmt.Errorf("yaml: line %d: the value of &%s %w", n.Line, n.Value, errWithin)
		}
		return s.of(n.Alias)
	}
	if size, ok := s.known[n]; ok {
		return size, nil
	}
	s.open[n] = true
	size := len(n.Value) + len(`"",`)
	for _, child := range n.Content {
		more, err := s.of(child)
		if err != nil {
			return 0, err
		}
		size = min(size+more, 2*Limit) // more than enough, and far from an overflow
	}
	delete(s.open, n)
	s.known[n] = size
	return size, nil
}

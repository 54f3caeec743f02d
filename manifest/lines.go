package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Line is the line of the source on which a field of the object stands, by the path that
// messages about it have, such as spec.template.spec.containers[0].image. Of a field that
// is not there it is the line of the nearest one above it; 0 for an object that was never
// read.
func (o Object) Line(path string) int {
	d := o.Document
	if d.Start == 0 {
		return 0
	}
	if d.tree == nil {
		d.tree = &yaml.Node{}
		// The text has been parsed before, by another parser; where this one stumbles, the
		// line is that of the document.
		_ = yaml.Unmarshal(d.raw, d.tree)
	}
	if len(d.tree.Content) == 0 {
		return d.Start
	}
	node := d.tree.Content[0]
	var steps []string
	for step := range strings.SplitSeq(strings.TrimPrefix(o.pointer, "/"), "/") {
		if step != "" {
			steps = append(steps, step)
		}
	}
	line := node.Line
	for _, step := range append(steps, fieldSteps(path)...) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		at, next := child(node, step)
		if next == nil {
			break
		}
		line, node = at, next
	}
	return d.lineOf(line)
}

// child finds a member of a mapping by its key, with the line of the key, and one of a
// list by its number, or by its name.
func child(n *yaml.Node, step string) (int, *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i].Line, n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i].Line, n.Content[i]
		}
		for _, item := range n.Content {
			if _, name := child(item, "name"); item.Kind == yaml.MappingNode && name != nil && name.Value == step {
				return item.Line, item
			}
		}
	}
	return 0, nil
}

// fieldSteps are the parts of a field path: names, and what stands in brackets, which may
// hold dots.
func fieldSteps(path string) []string {
	var steps []string
	for path != "" {
		if path[0] == '[' {
			key, rest, _ := strings.Cut(path[1:], "]")
			steps, path = append(steps, key), rest
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			steps = append(steps, path[:end])
		}
		path = path[end:]
	}
	return steps
}

package manifest

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"rollcall.training/internal/fieldpath"
)

// Line returns the line of a field in the source file, from 1. The path has the syntax of field
// errors, such as spec.template.spec.containers[0].image. An empty path means the object. If the field
// does not exist, Line returns the line of its nearest existing parent. It returns 0 for an object that
// was not read from a file.
func (o Object) Line(path string) int {
	line, _ := o.Position(path)
	return line
}

// Position returns the line of a field like [Object.Line], and its column, from 1. The column is 0 if the
// line is 0.
func (o Object) Position(path string) (line, column int) {
	d := o.Document
	if d.StartLine == 0 {
		return 0, 0
	}
	if d.yamlTree == nil {
		d.yamlTree = &yaml.Node{}
		// The text is valid for the parser that read it. If this parser rejects the text, the tree
		// remains empty, and the result is the first line of the document.
		_ = yaml.Unmarshal(d.raw, d.yamlTree)
	}
	if len(d.yamlTree.Content) == 0 {
		return d.StartLine, 1
	}
	node := d.yamlTree.Content[0]
	line, column = node.Line, node.Column
	for _, step := range append(fieldpath.SplitPointer(o.jsonPointer), fieldpath.Split(path)...) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		key, child := findChild(node, step)
		if child == nil {
			break
		}
		line, column, node = key.Line, key.Column, child
	}
	return d.sourceLine(line), column
}

// findChild returns a child of a mapping or a list, and the node with its position. The step is a key of
// the mapping, or the index or the name of an item. The position of a child of a mapping is that of the
// key. It returns nil if the child does not exist.
func findChild(n *yaml.Node, step string) (position, child *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
		for _, item := range n.Content {
			if item.Kind != yaml.MappingNode {
				continue
			}
			if _, name := findChild(item, "name"); name != nil && name.Value == step {
				return item, item
			}
		}
	}
	return nil, nil
}

// ReadField returns the value of a field of a JSON text; nil if the field does not exist. The path has the
// syntax of [Object.Line].
func ReadField(text []byte, path string) any {
	var node yaml.Node
	if yaml.Unmarshal(text, &node) != nil || len(node.Content) == 0 {
		return nil
	}
	child := node.Content[0]
	for _, step := range fieldpath.Split(path) {
		if _, child = findChild(child, step); child == nil {
			return nil
		}
	}
	var value any
	_ = child.Decode(&value) // JSON has no tags or aliases that could fail
	return value
}

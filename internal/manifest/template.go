package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"rollcall.training/internal/fieldpath"
)

// Templates are not manifests. A document with actions such as {{ .Values.name }} is usually not valid
// YAML. A document with variables such as $NUM_NODES is, but it has strings where other types belong.
var (
	// templateActionPattern matches an action of Helm, Jinja and similar programs.
	templateActionPattern = regexp.MustCompile(`\{\{.*\}\}|\{%.*%\}`)
	// templateVariablePattern matches a variable of envsubst.
	templateVariablePattern = regexp.MustCompile(`\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})`)
)

const (
	templateActionHint = "the document is a template; " +
		"render it first, for example with helm template, and use the output"
	templateVariableHint = "the document is a template with variables such as %s; " +
		"substitute them first, for example with envsubst"
)

// shellFields are the fields whose values can contain variables of a shell.
var shellFields = []string{"command", "args", "value", "data", "stringData", "annotations"}

// FindTemplateVariable returns a variable such as $NUM_NODES that the object contains outside of
// commands, and the path of its field. It returns false for an object without such variables.
func (o Object) FindTemplateVariable() (variable, path string, found bool) {
	var tree any
	if json.Unmarshal(o.JSON, &tree) != nil {
		return "", "", false
	}
	return findTemplateVariable(tree, "")
}

func findTemplateVariable(value any, path string) (string, string, bool) {
	switch value := value.(type) {
	case string:
		variable := templateVariablePattern.FindString(value)
		return variable, path, variable != ""
	case []any:
		for i, item := range value {
			if variable, itemPath, found := findTemplateVariable(item, fieldpath.Item(path, i)); found {
				return variable, itemPath, true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if slices.Contains(shellFields, key) {
				continue
			}
			if variable, childPath, found := findTemplateVariable(value[key], fieldpath.Child(path, key)); found {
				return variable, childPath, true
			}
		}
	}
	return "", "", false
}

// TemplateHint returns an instruction for a document that is a template whose variables are not
// substituted. It returns an empty string for any other document. A template can be valid, so the hint
// only explains an error.
func (d *Document) TemplateHint() string {
	for _, o := range d.Objects() {
		if variable, _, found := o.FindTemplateVariable(); found {
			return fmt.Sprintf(templateVariableHint, variable)
		}
	}
	return ""
}

// HasTemplateVariable reports whether a text contains a variable such as $NUM_NODES.
func HasTemplateVariable(text string) bool { return templateVariablePattern.MatchString(text) }

// explainSyntaxError returns an instruction for a YAML error on the given line of the document, from
// 1, or an empty string.
func (d *Document) explainSyntaxError(line int) string {
	if templateActionPattern.Match(d.raw) {
		return templateActionHint
	}
	text := lineOf(d.raw, line)
	indentation := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	// The parser reports some errors of a line at the line before it.
	switch variable := templateVariablePattern.Find(append(text[:len(text):len(text)], lineOf(d.raw, line+1)...)); {
	case bytes.ContainsRune(indentation, '\t'):
		return "the indentation contains a tab; use spaces"
	case variable != nil:
		return fmt.Sprintf(templateVariableHint, variable)
	}
	return ""
}

// lineOf returns a line of a text, from 1. It returns nil if the text has no such line.
func lineOf(text []byte, number int) []byte {
	for line := range bytes.Lines(text) {
		if number--; number == 0 {
			return line
		}
	}
	return nil
}

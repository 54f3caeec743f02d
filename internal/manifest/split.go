package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const documentSeparator = "---"

// rawDocument is the text of one document.
type rawDocument struct {
	text []byte
	// startLine is the first line of the text in the source, from 1.
	startLine int
	// separatorSuffix is the text after the separator on the same line. It is empty if there is only
	// a comment.
	separatorSuffix string
}

// splitDocuments splits a text at its separators with the rules of kubectl (YAMLReader of
// k8s.io/apimachinery/pkg/util/yaml): a separator is a line that starts with three dashes and contains
// nothing else but a comment. In contrast to kubectl, a separator with content is an error of the
// document that it starts, not of the complete file.
func splitDocuments(text []byte) []rawDocument {
	var parts []rawDocument
	current, lineNumber := rawDocument{startLine: 1}, 0
	startNext := func(startLine int) {
		if len(current.text) > 0 {
			parts = append(parts, current)
		}
		current = rawDocument{startLine: startLine}
	}
	for line := range bytes.Lines(text) {
		lineNumber++
		rest, isSeparator := bytes.CutPrefix(line, []byte(documentSeparator))
		suffix := strings.TrimSpace(string(rest))
		hasContent := suffix != "" && suffix[0] != '#'
		switch {
		case !isSeparator:
			current.text = append(current.text, line...)
		case hasContent:
			startNext(lineNumber)
			current.separatorSuffix = suffix
			current.text = append(current.text, line...)
		case len(current.text) > 0:
			startNext(lineNumber + 1)
		default: // a separator before the first document belongs to that document
			current.text = append(current.text, line...)
		}
	}
	startNext(0)
	return parts
}

// validateMarkers returns an error for content after a separator or after an end marker. A parser of
// single documents ignores such content.
func (p rawDocument) validateMarkers() error {
	if p.separatorSuffix != "" {
		return errors.New("yaml: line 1: content after the document separator ---; move it to the next line")
	}
	ended, lineNumber := false, 0
	for line := range bytes.Lines(p.text) {
		lineNumber++
		content := bytes.TrimSpace(line)
		isEndMarker := bytes.HasPrefix(line, []byte("...")) && len(content) == len("...")
		switch {
		case isEndMarker:
			ended = true
		case ended && len(content) > 0 && content[0] != '#':
			return fmt.Errorf("yaml: line %d: content after the document end marker ...; start a new document with ---",
				lineNumber)
		}
	}
	return nil
}

// yamlErrorPrefix is the prefix of all errors of [yaml.YAMLToJSONStrict].
const yamlErrorPrefix = "error converting YAML to JSON: "

// yamlLinePattern matches the line in an error of the YAML parsers. An error with several reasons has
// a line in front of each of them.
var yamlLinePattern = regexp.MustCompile(`(?m)^(?:` + yamlErrorPrefix + `)?(?:yaml: )?\s*line (\d+): `)

// goMapKeyReason is the start of the reason for a mapping as a key, such as {{ .Values.name }}. The rest
// is the mapping in the syntax of Go.
const goMapKeyReason = "invalid map key: "

// newError converts an error of a YAML parser, whose lines are those of the document, to an error with
// the line of the source. It joins several reasons to one line.
func (d *Document) newError(err error) *Error {
	e := &Error{Source: d.Source, Number: d.Number, Line: d.StartLine}
	text := err.Error()
	if match := yamlLinePattern.FindStringSubmatch(text); match != nil {
		if line, err := strconv.Atoi(match[1]); err == nil {
			e.Line = d.sourceLine(line)
		}
	} else if action := templateActionPattern.FindIndex(d.raw); action != nil {
		e.Line += bytes.Count(d.raw[:action[0]], []byte("\n"))
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, yamlErrorPrefix), "yaml: unmarshal errors:\n")
	var reasons []string
	for _, reason := range yamlLinePattern.Split(text, -1) {
		reason = strings.TrimPrefix(strings.TrimSpace(reason), "yaml: ")
		if reason != "" && !strings.HasPrefix(reason, goMapKeyReason) {
			reasons = append(reasons, reason)
		}
	}
	if hint := d.explainSyntaxError(e.Line - d.StartLine + 1); hint != "" {
		reasons = append(reasons, hint)
	} else if len(reasons) == 0 {
		reasons = append(reasons, "a key must not be a mapping")
	}
	e.Err = errors.New(strings.Join(reasons, "; "))
	return e
}

// sourceLine converts a line of the document to a line of the source. The result is within the
// document: YAML parsers count a carriage return as the end of a line, which editors do not, and they
// can report the line after the last.
func (d *Document) sourceLine(line int) int {
	lastIndex := bytes.Count(bytes.TrimSuffix(d.raw, []byte("\n")), []byte("\n"))
	return d.StartLine + min(max(line-1, 0), lastIndex)
}

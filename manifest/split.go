package manifest

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

const separator = "---"

// part is the text of one document, with the line on which it begins.
type part struct {
	text []byte
	line int
	// after is what follows a separator on its line, if that is more than a comment.
	after string
}

// split cuts a text at its separators, by the rules of kubectl (k8s.io/apimachinery,
// YAMLReader): a line that begins with three dashes, and holds no more than a comment
// beside them. It differs in that a wrong separator is the fault of the document that it
// begins, and that each part knows its line.
func split(text []byte) []part {
	var parts []part
	current, n := part{line: 1}, 0
	end := func(next int) {
		if len(current.text) > 0 {
			parts = append(parts, current)
		}
		current = part{line: next}
	}
	for line := range bytes.Lines(text) {
		n++
		rest, ok := bytes.CutPrefix(line, []byte(separator))
		after := strings.TrimSpace(string(rest))
		switch {
		case !ok:
			current.text = append(current.text, line...)
		case after != "" && after[0] != '#':
			end(n)
			current.after = after
			current.text = append(current.text, line...)
		case len(current.text) > 0:
			end(n + 1)
		default: // before the first document
			current.text = append(current.text, line...)
		}
	}
	end(0)
	return parts
}

// check refuses what a parser of one document passes over in silence.
func (p part) check() error {
	if p.after != "" {
		return errors.New("yaml: line 1: a separator of documents, ---, stands alone on its line")
	}
	ended, n := false, 0
	for line := range bytes.Lines(p.text) {
		n++
		content := bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("...")) && len(content) == len("..."):
			ended = true
		case ended && len(content) > 0 && content[0] != '#':
			return errors.New("yaml: line " + strconv.Itoa(n) + ": there is more after the end of the document, ...; separate the two by ---")
		}
	}
	return nil
}

// yamlLine is how the parsers of YAML name a line: at the beginning of an error, or of
// each of several.
var yamlLine = regexp.MustCompile(`(?m)^(?:error converting YAML to JSON: )?(?:yaml: )?\s*line (\d+): `)

// place makes an error about the document's own text one about its source.
func (d *Document) place(err error) *Error {
	e := &Error{Source: d.Source, Number: d.Number}
	text := err.Error()
	found := yamlLine.FindStringSubmatch(text)
	if found == nil {
		e.Line = d.Start
	} else if n, err := strconv.Atoi(found[1]); err == nil {
		e.Line = d.lineOf(n)
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
	var reasons []string
	for _, reason := range yamlLine.Split(text, -1) {
		if reason = strings.TrimPrefix(strings.TrimSpace(reason), "yaml: "); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if at := action.FindIndex(d.raw); at != nil {
		if found == nil {
			e.Line += bytes.Count(d.raw[:at[0]], []byte("\n"))
		}
		reasons = append(reasons, "it has the braces of a template: run helm template first, and use what that prints")
	}
	e.Err = errors.New(strings.Join(reasons, "; "))
	return e
}

// action is what a template of Helm has where a manifest has a value, or a line of its own.
var action = regexp.MustCompile(`\{\{.*\}\}`)

// lineOf makes a line of the document one of its source. Parsers of YAML take a lone
// carriage return for the end of a line, which editors do not, and may speak of the line
// behind the last.
func (d *Document) lineOf(n int) int {
	last := bytes.Count(bytes.TrimSuffix(d.raw, []byte("\n")), []byte("\n"))
	return d.Start + min(max(n-1, 0), last)
}

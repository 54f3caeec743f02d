package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// MaxBytes is the maximum size of a source in bytes. An object in a cluster has at most 1.5 MiB
// (--max-request-bytes of etcd), so a dump of a large cluster has fewer bytes.
const MaxBytes = 100 << 20

// Error reports a document or a source that cannot be read, and the position.
type Error struct {
	// Source is the name of the file.
	Source string
	// Number is the number of the document, from 1. It is 0 if no part of the source can be read.
	Number int
	// Line and Column are the position in the source, from 1. They are 0 if they are unknown.
	Line, Column int
	// Err is the reason without the position.
	Err error
}

// Error returns the position and the reason in one line.
func (e *Error) Error() string {
	text := "reading " + e.Source
	if e.Number > 0 {
		text += fmt.Sprintf(", document %d", e.Number)
	}
	if e.Line > 0 {
		text += fmt.Sprintf(", line %d", e.Line)
	}
	if e.Column > 0 {
		text += fmt.Sprintf(", column %d", e.Column)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Read returns the documents of a manifest. The source is its name in messages. The error is the first
// [*Error] of [ReadAll].
func Read(source string, r io.Reader) ([]*Document, error) {
	docs, errs := ReadAll(source, r)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return docs, nil
}

// ReadAll returns the documents of a manifest, and an error for each document that cannot be read.
// Both are in the order of the source. A document cannot be read if it is not valid YAML or JSON, or
// if it contains a duplicate key.
//
// In a sequence of JSON objects without separators, an invalid object hides all objects after it,
// because its end is unknown. They result in one error. A source with more than [MaxBytes] bytes, or
// with a read error, has no documents and one error.
func ReadAll(source string, r io.Reader) ([]*Document, []*Error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(text) > MaxBytes {
		err = fmt.Errorf("the source has more than %d MiB; split it into several files", MaxBytes>>20)
	}
	if err != nil {
		return nil, []*Error{{Source: source, Err: err}}
	}
	return ReadText(source, text, MaxBytes)
}

// ReadText is [ReadAll] for a text that is in memory. A document with more than maxBytes bytes after its aliases are
// expanded cannot be read: a few hundred bytes can expand to any size.
func ReadText(source string, text []byte, maxBytes int) ([]*Document, []*Error) {
	// A text that starts with a brace is JSON, or YAML in flow style. JSON objects can follow each
	// other without a separator.
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		if docs, errs, ok := readJSON(source, text); ok {
			return docs, errs
		}
	}
	return readYAML(source, text, maxBytes)
}

func readYAML(source string, text []byte, maxBytes int) (docs []*Document, errs []*Error) {
	for i, part := range splitDocuments(text) {
		d := &Document{Source: source, Number: i + 1, StartLine: part.startLine, raw: part.text}
		err := part.validateMarkers()
		if err == nil {
			err = d.parseYAML(maxBytes)
		}
		if err != nil {
			errs = append(errs, d.newError(err))
			continue
		}
		docs = append(docs, d)
	}
	return docs, errs
}

// parseYAML sets jsonText from raw. jsonText remains nil if the document contains only comments.
func (d *Document) parseYAML(maxBytes int) error {
	if err := checkAliasSize(d.raw, maxBytes); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSONStrict(d.raw)
	if err != nil {
		merged, ok := resolveMergeKeys(d.raw)
		if !ok {
			return err
		}
		text = merged
	}
	if !bytes.Equal(text, []byte("null")) {
		d.jsonText = text
	}
	return nil
}

// readJSON reads a sequence of JSON objects. It returns false if the text is not such a sequence, or
// if its first object is not valid: the text can be YAML then.
func readJSON(source string, text []byte) (docs []*Document, errs []*Error, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	line, offset := 1, 0
	for {
		// The decoder skips white space between objects without reporting its length.
		gap := len(text[offset:]) - len(bytes.TrimLeft(text[offset:], " \t\r\n"))
		line += bytes.Count(text[offset:offset+gap], []byte("\n"))
		offset += gap
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, errs, true
		}
		number := len(docs) + len(errs) + 1
		if err != nil {
			if number == 1 || text[offset] != '{' {
				return nil, nil, false
			}
			return docs, append(errs, newJSONError(source, number, line, text, err)), true
		}
		if err := checkDuplicateKeys(raw); err != nil {
			errs = append(errs, &Error{Source: source, Number: number, Line: line, Err: err})
		} else {
			docs = append(docs, &Document{
				Source: source, Number: number, StartLine: line, raw: raw, jsonText: raw,
			})
		}
		end := int(decoder.InputOffset())
		line += bytes.Count(text[offset:end], []byte("\n"))
		offset = end
	}
}

// newJSONError returns an error with the position of a syntax error. For other errors, the position is
// the first line of the document.
func newJSONError(source string, number, startLine int, text []byte, err error) *Error {
	e := &Error{Source: source, Number: number, Line: startLine, Err: err}
	var syntaxErr *json.SyntaxError
	if errors.As(err, &syntaxErr) && syntaxErr.Offset > 0 && int(syntaxErr.Offset) <= len(text) {
		before := text[:syntaxErr.Offset-1] // the offset includes the invalid byte
		e.Line = 1 + bytes.Count(before, []byte("\n"))
		e.Column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	return e
}

// checkDuplicateKeys returns an error for duplicate keys. encoding/json would use the last of them.
func checkDuplicateKeys(raw []byte) error {
	var tree any
	strictErrs, err := kjson.UnmarshalStrict(raw, &tree)
	if err != nil {
		return err
	}
	return errors.Join(strictErrs...)
}

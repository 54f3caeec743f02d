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

// Limit bounds what is read of one source, in bytes. A Kubernetes object has at most
// 1.5 MiB (etcd, --max-request-bytes), so this is room for the dump of a large cluster.
const Limit = 100 << 20

// Error says what cannot be read, and where it stands.
type Error struct {
	// Source names the file.
	Source string
	// Number is the document's, from 1; 0 when the source as a whole cannot be read.
	Number int
	// Line and Column stand in the source, from 1; 0 where the parser does not tell.
	Line, Column int
	// Err is the reason, without the place.
	Err error
}

// Error is one line: place and reason.
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

// Read splits a manifest into its documents. A document that is no valid YAML or
// JSON, or in which a key stands twice, is an error that names it with its line. It is
// an [*Error], the first of those that [ReadAll] gives.
func Read(source string, r io.Reader) ([]*Document, error) {
	docs, errs := ReadAll(source, r)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return docs, nil
}

// ReadAll does what Read does, and goes on after a document that cannot be read: the
// documents are those that can be, and each other one has an error, in their order.
//
// What comes after a broken JSON object in a row of them is lost with it, since nothing
// says where the next one begins; that is one error. A source of more than [Limit]
// bytes, or one that cannot be read to its end, has no documents and one error.
func ReadAll(source string, r io.Reader) ([]*Document, []*Error) {
	text, err := io.ReadAll(io.LimitReader(r, Limit+1))
	if err == nil && len(text) > Limit {
		err = fmt.Errorf("it has more than %d MiB, which is the limit; split it", Limit>>20)
	}
	if err != nil {
		return nil, []*Error{{Source: source, Err: err}}
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		// JSON objects may follow one another without a separator; YAML in its flow
		// style begins with a brace too.
		if docs, errs, ok := readJSON(source, text); ok {
			return docs, errs
		}
	}
	return readYAML(source, text)
}

func readYAML(source string, text []byte) (docs []*Document, errs []*Error) {
	for i, part := range split(text) {
		d := &Document{Source: source, Number: i + 1, Start: part.line, raw: part.text}
		err := part.check()
		if err == nil {
			err = d.parse()
		}
		if err != nil {
			errs = append(errs, d.place(err))
			continue
		}
		docs = append(docs, d)
	}
	return docs, errs
}

// parse makes JSON of the text.
func (d *Document) parse() error {
	if err := expandable(d.raw); err != nil {
		return err
	}
	text, err := yaml.YAMLToJSONStrict(d.raw)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, []byte("null")) { // comments alone
		d.json = text
	}
	return nil
}

// readJSON reads a sequence of JSON objects; it reports false when the text is
// something else, or not quite that.
func readJSON(source string, text []byte) (docs []*Document, errs []*Error, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	line, at := 1, 0
	for {
		// What lies between two values is white space, of which the decoder tells nothing.
		gap := len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
		line += bytes.Count(text[at:at+gap], []byte("\n"))
		at += gap
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, errs, true
		}
		d := &Document{Source: source, Number: len(docs) + len(errs) + 1, Start: line, raw: raw, json: raw}
		if err != nil {
			if d.Number == 1 || text[at] != '{' {
				return nil, nil, false
			}
			e := &Error{Source: source, Number: d.Number, Line: line, Err: err}
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) && syntax.Offset > 0 && int(syntax.Offset) <= len(text) {
				before := text[:syntax.Offset-1] // the offset counts the byte at fault
				e.Line = 1 + bytes.Count(before, []byte("\n"))
				e.Column = len(before) - bytes.LastIndexByte(before, '\n')
			}
			return docs, append(errs, e), true
		}
		if err := twice(raw); err != nil {
			errs = append(errs, &Error{Source: source, Number: d.Number, Line: line, Err: err})
		} else {
			docs = append(docs, d)
		}
		end := int(dec.InputOffset())
		line += bytes.Count(text[at:end], []byte("\n"))
		at = end
	}
}

// twice finds keys that stand twice in an object, of which JSON takes the last.
func twice(raw []byte) error {
	var tree any
	strict, err := kjson.UnmarshalStrict(raw, &tree)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

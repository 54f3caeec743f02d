package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Document is one document of a manifest.
type Document struct {
	// Source names the file, and Number counts its documents from 1.
	Source string
	Number int

	raw     []byte // as read
	json    []byte // the same as JSON; nil for a document without content
	changed bool
}

// String says where the document stands, for messages.
func (d *Document) String() string { return fmt.Sprintf("%s, document %d", d.Source, d.Number) }

// Read splits a manifest into its documents. A document that is no valid YAML or
// JSON, or in which a key stands twice, is an error that names it with its line.
func Read(source string, r io.Reader) ([]*Document, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		// JSON objects may follow one another without a separator; YAML in its flow
		// style begins with a brace too.
		if docs, ok := readJSON(source, text); ok {
			return docs, nil
		}
	}
	var docs []*Document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", source, err)
		}
		d := &Document{Source: source, Number: len(docs) + 1, raw: raw}
		if d.json, err = yaml.YAMLToJSONStrict(raw); err != nil {
			return nil, fmt.Errorf("reading %s: %w", d, err)
		}
		if bytes.Equal(d.json, []byte("null")) {
			d.json = nil // comments alone
		}
		docs = append(docs, d)
	}
}

// readJSON reads a sequence of JSON objects; it reports false when the text is
// something else, or not quite that.
func readJSON(source string, text []byte) ([]*Document, bool) {
	var docs []*Document
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return docs, true
		}
		if err == nil {
			_, err = yaml.YAMLToJSONStrict(raw) // finds keys that stand twice
		}
		if err != nil {
			return nil, false
		}
		docs = append(docs, &Document{Source: source, Number: len(docs) + 1, raw: raw, json: raw})
	}
}

// Format is a way to write a manifest.
type Format string

// The formats of [Write].
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Write writes the documents, unchanged ones as they were read where the format
// allows it.
func Write(w io.Writer, format Format, docs []*Document) error {
	first := true
	for _, d := range docs {
		text, err := d.text(format)
		if err != nil {
			return fmt.Errorf("writing %s: %w", d, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if !first && format == YAML {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return fmt.Errorf("writing %s: %w", d, err)
			}
		}
		first = false
		if _, err := w.Write(append(bytes.TrimRight(text, "\n"), '\n')); err != nil {
			return fmt.Errorf("writing %s: %w", d, err)
		}
	}
	return nil
}

func (d *Document) text(format Format) ([]byte, error) {
	switch {
	case format == JSON && d.json == nil:
		return nil, nil
	case format == JSON:
		var out bytes.Buffer
		err := json.Indent(&out, d.json, "", "  ")
		return out.Bytes(), err
	case !d.changed && !bytes.Equal(d.raw, d.json):
		return trimSeparator(d.raw), nil
	case d.json == nil:
		return nil, nil
	}
	return yaml.JSONToYAML(d.json)
}

// trimSeparator drops a leading separator line, which Write adds itself.
func trimSeparator(raw []byte) []byte {
	if rest, ok := bytes.CutPrefix(raw, []byte("---\n")); ok {
		return rest
	}
	return raw
}

// Of makes a document of an object that came from nowhere else. What only a
// cluster knows of it, its status, is left out.
func Of(source string, obj runtime.Object) (*Document, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", source, err)
	}
	delete(tree, "status")
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", source, err)
	}
	return &Document{Source: source, Number: 1, json: text, changed: true}, nil
}

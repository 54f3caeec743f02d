package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	in := bufio.NewReader(r)
	if isJSON(in) {
		return readJSON(source, in)
	}
	var docs []*Document
	reader := utilyaml.NewYAMLReader(in)
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

// isJSON looks for the brace that starts a JSON object, past white space.
func isJSON(in *bufio.Reader) bool {
	for n := 1; ; n++ {
		head, err := in.Peek(n)
		if err != nil {
			return false
		}
		switch c := head[n-1]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
}

// readJSON reads JSON objects that follow one another without a separator.
func readJSON(source string, in io.Reader) ([]*Document, error) {
	var docs []*Document
	dec := json.NewDecoder(in)
	for {
		d := &Document{Source: source, Number: len(docs) + 1}
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading %s at byte %d: %w", d, dec.InputOffset(), err)
		}
		if _, err := yaml.YAMLToJSONStrict(raw); err != nil {
			return nil, fmt.Errorf("reading %s: %w", d, err)
		}
		d.raw, d.json = raw, raw
		docs = append(docs, d)
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
	case !d.changed && !bytes.HasPrefix(bytes.TrimSpace(d.raw), []byte("{")):
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

// Holds reports whether one of the documents is an object of the given kind and
// name.
func Holds(docs []*Document, kind, name string) bool {
	for _, d := range docs {
		var obj metav1.PartialObjectMetadata
		if d.json != nil && json.Unmarshal(d.json, &obj) == nil && obj.Kind == kind && obj.Name == name {
			return true
		}
	}
	return false
}

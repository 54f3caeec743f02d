package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"
)

// Document is one document of a manifest.
type Document struct {
	// Source names the file, and Number counts its documents from 1, those that cannot be
	// read among them.
	Source string
	Number int
	// Start is the line of the source on which it begins, from 1; 0 for a document that
	// was not read.
	Start int

	raw     []byte // as read
	json    []byte // the same as JSON; nil for a document without content
	changed bool
	tree    *yaml.Node // of raw, once somebody asked for a line
}

// String says where the document stands, for messages.
func (d *Document) String() string { return fmt.Sprintf("%s, document %d", d.Source, d.Number) }

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
	return kyaml.JSONToYAML(d.json)
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

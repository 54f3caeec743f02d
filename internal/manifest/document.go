package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/yaml"
)

// Document is one document of a manifest. It is not safe for concurrent use.
type Document struct {
	// Source is the name of the file.
	Source string
	// Number is the position in the file, from 1. It counts documents that cannot be read too.
	Number int
	// StartLine is the first line of the document in the file, from 1. It is 0 if the document was
	// not read from a file.
	StartLine int

	raw      []byte // the text of the file
	jsonText []byte // the current content as JSON; nil if the document has no content
	modified bool
	yamlTree *yaml.Node // the parsed raw text; set by the first call of Object.Line
}

// String returns the source and the number for messages.
func (d *Document) String() string { return fmt.Sprintf("%s, document %d", d.Source, d.Number) }

// OmitEmpty returns the documents that contain more than comments. Their content need not be an object. It
// changes docs.
func OmitEmpty(docs []*Document) []*Document {
	return slices.DeleteFunc(docs, func(d *Document) bool { return d.jsonText == nil })
}

// Format is an output format of manifests.
type Format string

// The formats of [Write].
const (
	YAML Format = "yaml"
	JSON Format = "json"
)

// Write writes documents in the given format. In YAML format it writes unmodified YAML documents as
// they were read, including comments. It omits documents without content.
func Write(w io.Writer, format Format, docs []*Document) error {
	isFirst := true
	for _, d := range docs {
		text, err := d.encodeText(format)
		if err != nil {
			return fmt.Errorf("writing %s: %w", d, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if !isFirst && format == YAML {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return fmt.Errorf("writing %s: %w", d, err)
			}
		}
		isFirst = false
		if _, err := w.Write(append(bytes.TrimRight(text, "\n"), '\n')); err != nil {
			return fmt.Errorf("writing %s: %w", d, err)
		}
	}
	return nil
}

// encodeText returns the text of the document in the given format. It returns nil if the document has
// no content in that format.
func (d *Document) encodeText(format Format) ([]byte, error) {
	wasReadAsJSON := bytes.Equal(d.raw, d.jsonText)
	switch {
	case format == JSON && d.jsonText == nil:
		return nil, nil
	case format == JSON:
		var out bytes.Buffer
		err := json.Indent(&out, d.jsonText, "", "  ")
		return out.Bytes(), err
	case !d.modified && !wasReadAsJSON:
		return trimSeparator(d.raw), nil
	case d.jsonText == nil:
		return nil, nil
	}
	return kyaml.JSONToYAML(d.jsonText)
}

// trimSeparator removes a leading separator line. Write adds separators itself.
func trimSeparator(raw []byte) []byte {
	if rest, ok := bytes.CutPrefix(raw, []byte("---\n")); ok {
		return rest
	}
	return raw
}

// NewDocument returns a document with the given object. The source is its name in messages. The
// document does not contain the status of the object, because a manifest cannot set it.
func NewDocument(source string, obj runtime.Object) (*Document, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", source, err)
	}
	delete(tree, "status")
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", source, err)
	}
	return &Document{Source: source, Number: 1, jsonText: text, modified: true}, nil
}

package manifest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// documentPosition is the position and the text of a document or an error.
type documentPosition struct {
	Number, Line, Column int
	Text                 string
}

// readPositions returns the positions of the documents and the errors of a text.
func readPositions(text string) (docs, errs []documentPosition) {
	read, failed := ReadAll("a.yaml", strings.NewReader(text))
	for _, d := range read {
		docs = append(docs, documentPosition{Number: d.Number, Line: d.StartLine, Text: string(d.jsonText)})
	}
	for _, e := range failed {
		errs = append(errs, documentPosition{Number: e.Number, Line: e.Line, Column: e.Column, Text: e.Err.Error()})
	}
	return docs, errs
}

func TestReadAll(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		docs []documentPosition
		errs []documentPosition // Text is a part of the error
	}{
		"an empty file has no documents": {},
		"documents around an invalid one are read": {
			text: "a: 1\n---\nb: [1\nc: 2\n---\n# c\nc: 3\n",
			docs: []documentPosition{
				{Number: 1, Line: 1, Text: `{"a":1}`},
				{Number: 3, Line: 6, Text: `{"c":3}`},
			},
			errs: []documentPosition{{Number: 2, Line: 3, Text: "did not find expected"}},
		},
		"a leading separator belongs to the first document": {
			text: "---\na: 1\n---\nb: 2\n",
			docs: []documentPosition{
				{Number: 1, Line: 1, Text: `{"a":1}`},
				{Number: 2, Line: 4, Text: `{"b":2}`},
			},
		},
		"a template of a chart is an error with an instruction": {
			text: "a: 1\n---\nkind: Job\nmetadata:\n  name: {{ .Values.name }}\n---\n{{- if .Values.on }}\nb: 1\n{{- end }}\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs: []documentPosition{
				{Number: 2, Line: 5, Text: "the document is a template; render it first"},
				{Number: 3, Line: 7, Text: "the document is a template; render it first"},
			},
		},
		"a key that is a mapping has a reason without Go syntax": {
			text: "a:\n  {b}: 1\n",
			errs: []documentPosition{{Number: 1, Line: 1, Text: "a key must not be a mapping"}},
		},
		"a variable of envsubst in flow style is an error with an instruction": {
			text: "a: 1\nb: {c: ${D}}\n",
			errs: []documentPosition{{Number: 1, Line: 1, Text: "variables such as ${D}; substitute them first"}},
		},
		"actions of Jinja are an error with an instruction": {
			text: "a: 1\n{% if b %}\nc: 2\n{% endif %}\n",
			errs: []documentPosition{{Number: 1, Line: 2, Text: "the document is a template; render it first"}},
		},
		"a string can contain two braces": {
			text: "a: \"{{inputs.x}}\"\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":"{{inputs.x}}"}`}},
		},
		"all duplicate keys are reported with the line of the first": {
			text: "x: 1\n---\na: 1\na: 2\nb: 1\nb: 2\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"x":1}`}},
			errs: []documentPosition{
				{Number: 2, Line: 4, Text: `key "a" already set in map; key "b" already set in map`},
			},
		},
		"content after a separator is an error of the next document": {
			text: "a: 1\n--- {b: 2}\nb: 3\n---\nc: 3\n",
			docs: []documentPosition{
				{Number: 1, Line: 1, Text: `{"a":1}`},
				{Number: 3, Line: 5, Text: `{"c":3}`},
			},
			errs: []documentPosition{{Number: 2, Line: 2, Text: "content after the document separator"}},
		},
		"content after an end marker is an error because a parser would ignore it": {
			text: "a: 1\n...\nb: 2\n",
			errs: []documentPosition{{Number: 1, Line: 3, Text: "content after the document end marker"}},
		},
		"an end marker can be followed by a comment": {
			text: "a: 1\n...\n# the end\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":1}`}},
		},
		"invalid UTF-8 is reported at the start of the document": {
			text: "a: 1\n---\nb: \xc3(\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs: []documentPosition{{Number: 2, Line: 3, Text: "UTF-8"}},
		},
		"a carriage return is not the end of a line": {
			text: "a: 1\n---\nb: [0\r0\r[",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs: []documentPosition{{Number: 2, Line: 3, Text: "did not find expected"}},
		},
		"a tab in the indentation is reported with its line": {
			text: "a:\n\tb: 1\n",
			errs: []documentPosition{{Number: 1, Line: 2, Text: "the indentation contains a tab; use spaces"}},
		},
		"consecutive JSON objects have lines": {
			text: "{\"a\": 1}\n\n{\"b\":\n 2}{\"c\": 3}\n",
			docs: []documentPosition{
				{Number: 1, Line: 1, Text: `{"a": 1}`},
				{Number: 2, Line: 3, Text: "{\"b\":\n 2}"},
				{Number: 3, Line: 4, Text: `{"c": 3}`},
			},
		},
		"an invalid JSON object hides the objects after it": {
			text: "{\"a\": 1}\n{\"b\": oh}\n{\"c\": 3}\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a": 1}`}},
			errs: []documentPosition{{Number: 2, Line: 2, Column: 7, Text: "invalid character"}},
		},
		"a duplicate key in JSON does not hide the next object": {
			text: "{\"a\": 1, \"a\": 2}\n{\"c\": 3}\n",
			docs: []documentPosition{{Number: 2, Line: 2, Text: `{"c": 3}`}},
			errs: []documentPosition{{Number: 1, Line: 1, Text: `duplicate field "a"`}},
		},
		"JSON can contain escapes that YAML does not support": {
			text: `{"a": "\ud83d\ude00", "b": "\/"}`,
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a": "\ud83d\ude00", "b": "\/"}`}},
		},
		"JSON objects with separators are YAML": {
			text: "{\"a\": 1}\n---\n{\"b\": 2}\n",
			docs: []documentPosition{
				{Number: 1, Line: 1, Text: `{"a":1}`},
				{Number: 2, Line: 3, Text: `{"b":2}`},
			},
		},
		"an alias is expanded": {
			text: "a: &a {x: 1}\nb: *a\n",
			docs: []documentPosition{{Number: 1, Line: 1, Text: `{"a":{"x":1},"b":{"x":1}}`}},
		},
		"an alias that contains itself is an error": {
			text: "a: &a [*a]\n",
			errs: []documentPosition{{Number: 1, Line: 1, Text: "contains itself"}},
		},
		"nested aliases of many values are an error": {
			text: newAliasBomb(9),
			errs: []documentPosition{{Number: 1, Line: 1, Text: "more than 102400 KiB"}},
		},
		"many aliases of a long string are an error": {
			text: "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
			errs: []documentPosition{{Number: 1, Line: 1, Text: "more than 102400 KiB"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			docs, errs := readPositions(c.text)
			if diff := cmp.Diff(c.docs, docs); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if len(errs) != len(c.errs) {
				t.Fatalf("errors %+v, want %+v", errs, c.errs)
			}
			for i, want := range c.errs {
				got := errs[i]
				if !strings.Contains(got.Text, want.Text) || strings.Contains(got.Text, "\n") {
					t.Errorf("error %q, want one line that contains %q", got.Text, want.Text)
				}
				want.Text, got.Text = "", ""
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("position of the error (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// newAliasBomb returns a document whose last list expands to 9^(levels+1) values. The items of each
// list are nine aliases of the list before.
func newAliasBomb(levels int) string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i <= levels; i++ {
		before := "*a" + string(rune('0'+i-1)) + ","
		text += "a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(before, 9) + "]\n"
	}
	return text
}

func TestErrorText(t *testing.T) {
	_, err := Read("a.yaml", strings.NewReader("a: 1\n---\nb: 1\nb: 2\n"))
	const want = `reading a.yaml, document 2, line 4: key "b" already set in map`
	var e *Error
	if !errors.As(err, &e) || err.Error() != want {
		t.Errorf("error %q, want an *Error with the text %q", err, want)
	}
}

// endlessReader returns zero bytes without an end.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUnreadableSource(t *testing.T) {
	docs, errs := ReadAll("endless", endlessReader{})
	if len(docs) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "more than 100 MiB") {
		t.Errorf("%d documents and errors %v for an endless source, want one error", len(docs), errs)
	}
	readErr := errors.New("read error")
	docs, errs = ReadAll("unreadable", iotest.ErrReader(readErr))
	if len(docs) != 0 || len(errs) != 1 || !errors.Is(errs[0], readErr) {
		t.Errorf("%d documents and errors %v for a source with a read error, want that error", len(docs), errs)
	}
}

// FuzzReadAll checks that each document is read or has an error, that their positions are within the
// text, and that documents can be read again after they were written.
func FuzzReadAll(f *testing.F) {
	for _, text := range []string{
		"a: 1\n---\nb: [1\n",
		`{"a": 1}{"b": oh}`,
		"a: &a [*a]\n",
		newAliasBomb(3),
		"---\n---\n--- x\n...\n",
		"\xef\xbb\xbf{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, errs := ReadAll("fuzz", bytes.NewReader(text))
		numbers := map[int]bool{}
		lines := 1 + bytes.Count(text, []byte("\n"))
		for _, d := range docs {
			if numbers[d.Number] || d.StartLine < 1 || d.StartLine > lines {
				t.Errorf("document %d starts on line %d of %d, or its number is not unique", d.Number, d.StartLine, lines)
			}
			numbers[d.Number] = true
		}
		for _, e := range errs {
			if numbers[e.Number] || e.Line < 1 || e.Line > lines {
				t.Errorf("error %v in %d lines, or its number is not unique", e, lines)
			}
			numbers[e.Number] = true
		}
		for i := range numbers {
			if i < 1 || i > len(numbers) {
				t.Errorf("document %d of %d", i, len(numbers))
			}
		}
		var out bytes.Buffer
		// Only mappings can be read again from a sequence of JSON values.
		isMapping := func(d *Document) bool { return bytes.HasPrefix(d.jsonText, []byte("{")) }
		docs = slices.DeleteFunc(docs, func(d *Document) bool { return !isMapping(d) })
		if err := Write(&out, JSON, docs); err != nil {
			t.Fatal(err)
		}
		if _, err := Read("again", &out); err != nil {
			t.Errorf("reading the written documents: %v", err)
		}
	})
}

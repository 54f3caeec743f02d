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

// place is a document or an error as the tests compare them.
type place struct {
	Number, Line, Column int
	Text                 string
}

func read(text string) (docs, errs []place) {
	got, failed := ReadAll("a.yaml", strings.NewReader(text))
	for _, d := range got {
		docs = append(docs, place{Number: d.Number, Line: d.Start, Text: string(d.json)})
	}
	for _, e := range failed {
		errs = append(errs, place{Number: e.Number, Line: e.Line, Column: e.Column, Text: e.Err.Error()})
	}
	return docs, errs
}

func TestReadAll(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		text   string
		docs   []place
		errs   []place // Text is a part of it
	}{
		"nothing": {reason: "an empty file has no documents"},
		"one bad of three": {
			reason: "the others are read, and know their places",
			text:   "a: 1\n---\nb: [1\nc: 2\n---\n# c\nc: 3\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}, {Number: 3, Line: 6, Text: `{"c":3}`}},
			errs:   []place{{Number: 2, Line: 3, Text: "did not find expected"}},
		},
		"leading separator": {
			reason: "it belongs to the first document",
			text:   "---\na: 1\n---\nb: 2\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}, {Number: 2, Line: 4, Text: `{"b":2}`}},
		},
		"a chart's template": {
			reason: "it is no manifest before Helm has made one of it",
			text:   "a: 1\n---\nkind: Job\nmetadata:\n  name: {{ .Values.name }}\n---\n{{- if .Values.on }}\nb: 1\n{{- end }}\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs:   []place{{Number: 2, Line: 5, Text: "run helm template first"}, {Number: 3, Line: 7, Text: "run helm template first"}},
		},
		"braces in a text": {
			reason: "a manifest may hold them",
			text:   "a: \"{{inputs.x}}\"\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":"{{inputs.x}}"}`}},
		},
		"keys twice": {
			reason: "each is told, and the first gives the line",
			text:   "x: 1\n---\na: 1\na: 2\nb: 1\nb: 2\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"x":1}`}},
			errs:   []place{{Number: 2, Line: 4, Text: `key "a" already set in map; key "b" already set in map`}},
		},
		"separator with content": {
			reason: "kubectl refuses it; what stands before is not lost with it",
			text:   "a: 1\n--- {b: 2}\nb: 3\n---\nc: 3\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}, {Number: 3, Line: 5, Text: `{"c":3}`}},
			errs:   []place{{Number: 2, Line: 2, Text: "alone on its line"}},
		},
		"end marker": {
			reason: "a parser of one document stops there, and the rest would be gone",
			text:   "a: 1\n...\nb: 2\n",
			errs:   []place{{Number: 1, Line: 3, Text: "after the end of the document"}},
		},
		"end marker at the end": {
			reason: "nothing is lost",
			text:   "a: 1\n...\n# the end\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}},
		},
		"no YAML at all": {
			reason: "bytes that no parser reads have the document's place",
			text:   "a: 1\n---\nb: \xc3(\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs:   []place{{Number: 2, Line: 3, Text: "UTF-8"}},
		},
		"carriage returns": {
			reason: "a line is what an editor shows as one",
			text:   "a: 1\n---\nb: [0\r0\r[",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}},
			errs:   []place{{Number: 2, Line: 3, Text: "did not find expected"}},
		},
		"tabs": {
			reason: "a tab for indentation is told with its line",
			text:   "a:\n\tb: 1\n",
			errs:   []place{{Number: 1, Line: 2, Text: "cannot start any token"}},
		},
		"JSON in a row": {
			reason: "objects know their lines",
			text:   "{\"a\": 1}\n\n{\"b\":\n 2}{\"c\": 3}\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a": 1}`}, {Number: 2, Line: 3, Text: "{\"b\":\n 2}"}, {Number: 3, Line: 4, Text: `{"c": 3}`}},
		},
		"broken JSON in a row": {
			reason: "nothing says where the next one begins",
			text:   "{\"a\": 1}\n{\"b\": oh}\n{\"c\": 3}\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a": 1}`}},
			errs:   []place{{Number: 2, Line: 2, Column: 7, Text: "invalid character"}},
		},
		"key twice in JSON": {
			reason: "the object is bad, and the next one begins after it",
			text:   "{\"a\": 1, \"a\": 2}\n{\"c\": 3}\n",
			docs:   []place{{Number: 2, Line: 2, Text: `{"c": 3}`}},
			errs:   []place{{Number: 1, Line: 1, Text: `duplicate field "a"`}},
		},
		"JSON that is no YAML": {
			reason: "escapes beyond the basic plane, as Python writes them",
			text:   `{"a": "\ud83d\ude00", "b": "\/"}`,
			docs:   []place{{Number: 1, Line: 1, Text: `{"a": "\ud83d\ude00", "b": "\/"}`}},
		},
		"JSON documents of YAML": {
			reason: "objects with separators between them are YAML",
			text:   "{\"a\": 1}\n---\n{\"b\": 2}\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":1}`}, {Number: 2, Line: 3, Text: `{"b":2}`}},
		},
		"alias": {
			reason: "aliases that mean little are read",
			text:   "a: &a {x: 1}\nb: *a\n",
			docs:   []place{{Number: 1, Line: 1, Text: `{"a":{"x":1},"b":{"x":1}}`}},
		},
		"alias of itself": {
			reason: "it would never end",
			text:   "a: &a [*a]\n",
			errs:   []place{{Number: 1, Line: 1, Text: "contains itself"}},
		},
		"alias bomb": {
			reason: "nine levels of nine are a billion",
			text:   bomb(9),
			errs:   []place{{Number: 1, Line: 1, Text: "more than 100 MiB"}},
		},
		"alias bomb of one text": {
			reason: "the parser bounds the number of values alone",
			text:   "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
			errs:   []place{{Number: 1, Line: 1, Text: "more than 100 MiB"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			docs, errs := read(c.text)
			if diff := cmp.Diff(c.docs, docs); diff != "" {
				t.Errorf("%s: documents (-want +got):\n%s", c.reason, diff)
			}
			if len(errs) != len(c.errs) {
				t.Fatalf("%s: errors %+v, want %+v", c.reason, errs, c.errs)
			}
			for i, want := range c.errs {
				got := errs[i]
				if !strings.Contains(got.Text, want.Text) || strings.Contains(got.Text, "\n") {
					t.Errorf("%s: error %q, want one line with %q", c.reason, got.Text, want.Text)
				}
				want.Text, got.Text = "", ""
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: place of the error (-want +got):\n%s", c.reason, diff)
				}
			}
		})
	}
}

// bomb is a list of nine lists, of which each is the same list of nine, and so on.
func bomb(levels int) string {
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
		t.Errorf("error %q, want an *Error that says %q", err, want)
	}
}

// zeros is a source without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUnreadableSource(t *testing.T) {
	docs, errs := ReadAll("endless", zeros{})
	if len(docs) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "more than 100 MiB") {
		t.Errorf("an endless source gave %d documents and %v", len(docs), errs)
	}
	broken := errors.New("the disk is broken")
	docs, errs = ReadAll("broken", iotest.ErrReader(broken))
	if len(docs) != 0 || len(errs) != 1 || !errors.Is(errs[0], broken) {
		t.Errorf("a broken source gave %d documents and %v", len(docs), errs)
	}
}

// FuzzReadAll: whatever the text, each document is read or has an error, their places
// are in the text, and what was read can be written and read again.
func FuzzReadAll(f *testing.F) {
	for _, text := range []string{"a: 1\n---\nb: [1\n", `{"a": 1}{"b": oh}`, "a: &a [*a]\n", bomb(3), "---\n---\n--- x\n...\n", "\xef\xbb\xbf{}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, errs := ReadAll("fuzz", bytes.NewReader(text))
		numbers := map[int]bool{}
		lines := 1 + bytes.Count(text, []byte("\n"))
		for _, d := range docs {
			if numbers[d.Number] || d.Start < 1 || d.Start > lines {
				t.Errorf("document %d begins on line %d of %d", d.Number, d.Start, lines)
			}
			numbers[d.Number] = true
		}
		for _, e := range errs {
			if numbers[e.Number] || e.Line < 1 || e.Line > lines {
				t.Errorf("%v, and there are %d lines", e, lines)
			}
			numbers[e.Number] = true
		}
		for i := range numbers {
			if i < 1 || i > len(numbers) {
				t.Errorf("there is a document %d, and %d in all", i, len(numbers))
			}
		}
		var out bytes.Buffer
		// Values other than objects cannot be in a row of JSON, nor in a cluster.
		docs = slices.DeleteFunc(docs, func(d *Document) bool { return !bytes.HasPrefix(d.json, []byte("{")) })
		if err := Write(&out, JSON, docs); err != nil {
			t.Fatal(err)
		}
		if _, err := Read("again", &out); err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}

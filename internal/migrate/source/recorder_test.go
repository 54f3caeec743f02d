package source_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/internal/migrate/source"
)

// decodeManifest decodes a manifest like rollcall migrate.
func decodeManifest(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// formatEntries returns outcome and path of each entry.
func formatEntries(l *source.Recorder) []string {
	var out []string
	for _, e := range l.Entries() {
		out = append(out, string(e.Outcome)+" "+e.Path)
	}
	return out
}

func TestReportUnread(t *testing.T) {
	tests := map[string]struct {
		text string
		read func(n source.Field)
		want []string
	}{
		"unread values are dropped, each with an entry": {
			text: `{"a":1,"b":{"c":[true,"x"]}}`,
			read: func(source.Field) {},
			want: []string{"dropped a", "dropped b.c[0]", "dropped b.c[1]"},
		},
		"unknown fields are reported with every value except null": {
			text: `{"a":null,"b":{},"c":[],"d":[{}],"e":""}`,
			read: func(source.Field) {},
			want: []string{"dropped b", "dropped c", "dropped d[0]", "dropped e"},
		},
		"empty values of known fields are ignored": {
			text: `{"b":{},"c":[],"d":[{}],"e":"","f":[null]}`,
			read: func(n source.Field) {
				n.At("b", "x").Bool()
				n.Get("c").Items()
				n.Get("d").Items()[0].Keys()
				_ = n.Get("e").String()
				n.Get("f").Items()
			},
		},
		"unknown fields next to known fields are reported": {
			text: `{"a":{"b":1,"c":{}}}`,
			read: func(n source.Field) {
				n.Get("a").ReportUnreadExcept("b")
				n.Get("a").MarkPreserved("x")
			},
			want: []string{"preserved a", "dropped a.c"},
		},
		"an outcome covers all values below": {
			text: `{"a":{"b":1,"c":2}}`,
			read: func(n source.Field) { n.Get("a").MarkPreserved("x") },
			want: []string{"preserved a"},
		},
		"handled values are ignored": {
			text: `{"a":{"b":1}}`,
			read: func(n source.Field) { n.Get("a").MarkHandled() },
		},
		"a note does not cover the values below": {
			text: `{"a":{"b":1}}`,
			read: func(n source.Field) { n.Get("a").AddNote("is different", "") },
			want: []string{"changed a", "dropped a.b"},
		},
		"absent values are ignored": {
			text: `{"a":1}`,
			read: func(n source.Field) {
				n.Get("a").MarkPreserved("x")
				n.At("b", "c").MarkPreserved("x")
				n.Get("d").MarkLeftOut("the value has no effect")
				n.Get("e").MarkDropped("the value has no equivalent", "")
				n.Get("f").AddNote("the value is different", "")
			},
			want: []string{"preserved a"},
		},
		"a field can have several outcomes, each of them once": {
			text: `{"a":1}`,
			read: func(n source.Field) {
				n.Get("a").MarkPreserved("x")
				n.Get("a").MarkChanged("x", "y", "")
				n.Get("a").MarkPreserved("x")
			},
			want: []string{"preserved a", "changed a"},
		},
		"names with dots are in brackets": {
			text: `{"m":{"example.com/a":1,"b":2}}`,
			read: func(source.Field) {},
			want: []string{"dropped m.b", "dropped m[example.com/a]"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var l source.Recorder
			root := l.Root(decodeManifest(t, tt.text))
			tt.read(root)
			l.ReportUnread(root)
			if diff := cmp.Diff(tt.want, formatEntries(&l)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkErrors(t, &l, "")
		})
	}
}

// checkErrors checks that the only error contains a text, or that there are no errors if it is empty.
func checkErrors(t *testing.T, l *source.Recorder, want string) {
	t.Helper()
	got := l.Errors().ToAggregate()
	if (want != "") != (got != nil) || got != nil && !strings.Contains(got.Error(), want) {
		t.Errorf("errors: %v, want %q", got, want)
	}
}

func TestFieldValues(t *testing.T) {
	const text = `{"s":"x","b":true,"n":3,"f":1.5,"big":1e30,"list":["a","b"],"map":{"k":"v"},"null":null}`
	tests := map[string]struct {
		read      func(n source.Field) any
		want      any
		wantError string
	}{
		"a string is read": {
			read: func(n source.Field) any { return n.Get("s").String() },
			want: "x",
		},
		"null and absent values are empty strings": {
			read: func(n source.Field) any { return n.Get("null").String() + n.Get("absent").String() },
			want: "",
		},
		"a number is not a string": {
			read:      func(n source.Field) any { return n.Get("n").String() },
			want:      "",
			wantError: "n: Invalid value: 3: must be a string",
		},
		"a Boolean is read": {
			read: func(n source.Field) any { return *n.Get("b").Bool() },
			want: true,
		},
		"a string is not a Boolean": {
			read:      func(n source.Field) any { return n.Get("s").Bool() == nil },
			want:      true,
			wantError: `s: Invalid value: "x": must be true or false`,
		},
		"a whole number is read": {
			read: func(n source.Field) any { return *n.Get("n").Int32() },
			want: int32(3),
		},
		"a fraction is not a whole number": {
			read:      func(n source.Field) any { return n.Get("f").Int64() == nil },
			want:      true,
			wantError: "f: Invalid value: 1.5: must be a whole number",
		},
		"a number that is too large is rejected": {
			read:      func(n source.Field) any { return n.Get("big").Int32() == nil },
			want:      true,
			wantError: "must be a whole number",
		},
		"a number or a string is read as a string": {
			read: func(n source.Field) any { return n.Get("n").IntOrString() + n.Get("s").IntOrString() },
			want: "3x",
		},
		"a list is read": {
			read: func(n source.Field) any { return n.Get("list").Strings() },
			want: []string{"a", "b"},
		},
		"an object is not a list": {
			read:      func(n source.Field) any { return len(n.Get("map").Items()) },
			want:      0,
			wantError: "must be a list",
		},
		"an object of strings is read": {
			read: func(n source.Field) any { return n.Get("map").StringMap() },
			want: map[string]string{"k": "v"},
		},
		"a list is not an object": {
			read:      func(n source.Field) any { return len(n.Get("list").Keys()) },
			want:      0,
			wantError: "must be an object",
		},
		"an element of a list is read": {
			read: func(n source.Field) any { return n.Get("list").Item(1).String() },
			want: "b",
		},
		"an element outside the list does not exist": {
			read: func(n source.Field) any { return n.Get("list").Item(7).Exists() || n.Get("map").Item(-1).Exists() },
			want: false,
		},
		"a field of a string is rejected": {
			read:      func(n source.Field) any { return n.At("s", "t").Exists() },
			want:      false,
			wantError: `s: Invalid value: "x": must be an object`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var l source.Recorder
			root := l.Root(decodeManifest(t, text))
			if diff := cmp.Diff(tt.want, tt.read(root)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkErrors(t, &l, tt.wantError)
			if root.HasErrors() != (tt.wantError != "") {
				t.Errorf("HasErrors: %v", root.HasErrors())
			}
		})
	}
}

func TestFieldErrors(t *testing.T) {
	var l source.Recorder
	root := l.Root(decodeManifest(t, `{"a":{"b":1}}`))
	root.Get("a").MarkInvalid("is wrong")
	root.At("a", "c").MarkRequired("is needed")
	root.Get("a").Keys()
	var got []string
	for _, m := range l.Errors() {
		got = append(got, m.Error())
	}
	want := []string{"a: Invalid value: is wrong", "a.c: Required value: is needed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		text        string
		want        bool
		wantEntries []string
		wantError   string
	}{
		"fields that the type does not have are left out": {
			text:        `{"c":{"name":"x","imagePullPolice":"Always","ports":[{"port":1}]}}`,
			want:        true,
			wantEntries: []string{"changed c.imagePullPolice", "changed c.ports[0].port"},
		},
		"a value of the wrong type is an error": {
			text:      `{"c":{"name":1}}`,
			wantError: "c.name: Invalid value: must be of type string, not number",
		},
		"an absent value is not decoded": {text: `{}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var l source.Recorder
			var c corev1.Container
			if got := l.Root(decodeManifest(t, tt.text)).Get("c").Decode(&c); got != tt.want {
				t.Errorf("Decode = %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.wantEntries, formatEntries(&l)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkErrors(t, &l, tt.wantError)
		})
	}
}

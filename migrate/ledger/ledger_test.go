package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/migrate/ledger"
)

// tree reads a manifest as rollcall migrate does.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// entries are the account in short: outcome and path.
func entries(l *ledger.Ledger) []string {
	var out []string
	for _, e := range l.Entries() {
		out = append(out, string(e.Outcome)+" "+e.Path)
	}
	return out
}

func TestSettle(t *testing.T) {
	tests := []struct {
		reason, text string
		read         func(n ledger.Node)
		want         []string
	}{
		{"values that nobody read are lost, each by itself", `{"a":1,"b":{"c":[true,"x"]}}`, func(ledger.Node) {},
			[]string{"lost a", "lost b.c[0]", "lost b.c[1]"}},
		{"a field that nobody knows is named whatever it holds, but for null", `{"a":null,"b":{},"c":[],"d":[{}],"e":""}`, func(ledger.Node) {},
			[]string{"lost b", "lost c", "lost d[0]", "lost e"}},
		{"what is empty wishes for nothing, where somebody looked", `{"b":{},"c":[],"d":[{}],"e":"","f":[null]}`, func(n ledger.Node) {
			n.At("b", "x").Bool()
			n.Get("c").Items()
			n.Get("d").Items()[0].Keys()
			_ = n.Get("e").String()
			n.Get("f").Items()
		}, nil},
		{"to look for known fields is to know no other", `{"a":{"b":1,"c":{}}}`, func(n ledger.Node) {
			n.Get("a").Only("b")
			n.Get("a").Carried("x")
		}, []string{"carried a", "lost a.c"}},
		{"an account of a value is one of all below it", `{"a":{"b":1,"c":2}}`, func(n ledger.Node) { n.Get("a").Carried("x") },
			[]string{"carried a"}},
		{"what is ignored is not mentioned", `{"a":{"b":1}}`, func(n ledger.Node) { n.Get("a").Ignore() }, nil},
		{"a note accounts for nothing below", `{"a":{"b":1}}`, func(n ledger.Node) { n.Get("a").Note("is different", "") },
			[]string{"changed a", "lost a.b"}},
		{"values that are not there are not mentioned", `{"a":1}`, func(n ledger.Node) {
			n.Get("a").Carried("x")
			n.At("b", "c").Carried("x")
			n.Get("d").Changed("", "left out", "")
			n.Get("e").Lost("gone", "")
			n.Get("f").Note("hm", "")
		}, []string{"carried a"}},
		{"a field may be carried in one respect and changed in another, and said twice is said once", `{"a":1}`, func(n ledger.Node) {
			n.Get("a").Carried("x")
			n.Get("a").Changed("x", "y", "")
			n.Get("a").Carried("x")
		}, []string{"carried a", "changed a"}},
		{"names with dots stand in brackets, as in messages of the API server", `{"m":{"example.com/a":1,"b":2}}`, func(ledger.Node) {},
			[]string{"lost m.b", "lost m[example.com/a]"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var l ledger.Ledger
			root := l.Root(tree(t, tt.text))
			tt.read(root)
			l.Settle(root)
			if diff := cmp.Diff(tt.want, entries(&l)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(l.Mistakes()) > 0 {
				t.Errorf("mistakes: %v", l.Mistakes())
			}
		})
	}
}

func TestRead(t *testing.T) {
	const text = `{"s":"x","b":true,"n":3,"f":1.5,"big":1e30,"list":["a","b"],"map":{"k":"v"},"null":null}`
	tests := []struct {
		reason  string
		read    func(n ledger.Node) any
		want    any
		mistake string
	}{
		{"a text", func(n ledger.Node) any { return n.Get("s").String() }, "x", ""},
		{"none is no mistake", func(n ledger.Node) any { return n.Get("null").String() + n.Get("absent").String() }, "", ""},
		{"a number is no text", func(n ledger.Node) any { return n.Get("n").String() }, "", "n: Invalid value: 3: must be a string"},
		{"a truth value", func(n ledger.Node) any { return *n.Get("b").Bool() }, true, ""},
		{"a text is no truth value", func(n ledger.Node) any { return n.Get("s").Bool() == nil }, true, `s: Invalid value: "x": must be true or false`},
		{"a whole number", func(n ledger.Node) any { return *n.Get("n").Int32() }, int32(3), ""},
		{"a part of one is none", func(n ledger.Node) any { return n.Get("f").Int64() == nil }, true, "f: Invalid value: 1.5: must be a whole number"},
		{"a number that no field can hold is none", func(n ledger.Node) any { return n.Get("big").Int32() == nil }, true, "must be a whole number"},
		{"a number or a text", func(n ledger.Node) any { return n.Get("n").IntOrString() + n.Get("s").IntOrString() }, "3x", ""},
		{"a list", func(n ledger.Node) any { return n.Get("list").Strings() }, []string{"a", "b"}, ""},
		{"an object is no list", func(n ledger.Node) any { return len(n.Get("map").Items()) }, 0, "must be a list"},
		{"an object of texts", func(n ledger.Node) any { return n.Get("map").StringMap() }, map[string]string{"k": "v"}, ""},
		{"a list is no object", func(n ledger.Node) any { return len(n.Get("list").Keys()) }, 0, "must be an object"},
		{"an element", func(n ledger.Node) any { return n.Get("list").Item(1).String() }, "b", ""},
		{"an element that is not there", func(n ledger.Node) any { return n.Get("list").Item(7).Exists() || n.Get("map").Item(-1).Exists() }, false, ""},
		{"a field of a text is a mistake", func(n ledger.Node) any { return n.At("s", "t").Exists() }, false, `s: Invalid value: "x": must be an object`},
		{"a copy is no alias", func(n ledger.Node) any {
			n.Get("map").Tree().(map[string]any)["k"] = "other"
			return n.At("map", "k").String()
		}, "v", ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var l ledger.Ledger
			root := l.Root(tree(t, text))
			if diff := cmp.Diff(tt.want, tt.read(root)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := l.Mistakes().ToAggregate(); (tt.mistake != "") != (got != nil) || got != nil && !strings.Contains(got.Error(), tt.mistake) {
				t.Errorf("mistakes: %v, want %q", got, tt.mistake)
			}
			if root.Mistaken() != (tt.mistake != "") {
				t.Errorf("mistaken: %v", root.Mistaken())
			}
		})
	}
}

func TestMistakesOfValues(t *testing.T) {
	var l ledger.Ledger
	root := l.Root(tree(t, `{"a":{"b":1}}`))
	root.Get("a").Invalid("is wrong")
	root.At("a", "c").Required("is needed")
	root.Get("a").Keys()
	var got []string
	for _, m := range l.Mistakes() {
		got = append(got, m.Error())
	}
	want := []string{"a: Invalid value: is wrong", "a.c: Required value: is needed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an object is too long for a message of one line; -want +got:\n%s", diff)
	}
}

func TestInto(t *testing.T) {
	tests := []struct {
		reason, text string
		ok           bool
		want         []string // entries
		mistake      string
	}{
		{"fields that the type has not are lost", `{"c":{"name":"x","imagePullPolice":"Always","ports":[{"port":1}]}}`, true,
			[]string{"lost c.imagePullPolice", "lost c.ports[0].port"}, ""},
		{"a value of the wrong type", `{"c":{"name":1}}`, false, nil, "c.name: Invalid value: 1: it is a number, and has to be a string"},
		{"nothing there", `{}`, false, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var l ledger.Ledger
			var c corev1.Container
			if ok := l.Root(tree(t, tt.text)).Get("c").Into(&c); ok != tt.ok {
				t.Errorf("ok: %v", ok)
			}
			if diff := cmp.Diff(tt.want, entries(&l)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := l.Mistakes().ToAggregate(); (tt.mistake != "") != (got != nil) || got != nil && !strings.Contains(got.Error(), tt.mistake) {
				t.Errorf("mistakes: %v, want %q", got, tt.mistake)
			}
		})
	}
}

package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Node is a place in a manifest, there or not. Nodes are values; reading one that is
// not there gives zero values and enters nothing, so that a reader need not ask first.
type Node struct {
	path   *field.Path
	value  any
	ledger *Ledger
}

// Root is the whole manifest, decoded from JSON.
func (l *Ledger) Root(tree map[string]any) Node { return Node{value: tree, ledger: l} }

// Path is the node's place as users write it; empty for the root.
func (n Node) Path() string {
	if n.path == nil {
		return ""
	}
	return n.path.String()
}

// Exists reports whether the manifest has a value here. An explicit null is none, as
// for the API server.
func (n Node) Exists() bool { return n.value != nil }

// Get is the field of the given name. A name with dots in it, such as that of an
// annotation, stands in brackets in the path.
func (n Node) Get(name string) Node {
	n.look()
	switch n.value.(type) {
	case nil, map[string]any:
	default:
		n.wrongType("an object")
	}
	return n.child(name)
}

// child is the field of the given name, for whoever does not read it.
func (n Node) child(name string) Node {
	child := Node{ledger: n.ledger}
	switch {
	case n.path == nil:
		child.path = field.NewPath(name)
	case strings.ContainsAny(name, "./[]"):
		child.path = n.path.Key(name)
	default:
		child.path = n.path.Child(name)
	}
	if m, ok := n.value.(map[string]any); ok {
		child.value = m[name]
	}
	return child
}

// look notes that a reader knows the field.
func (n Node) look() {
	if !n.empty() {
		return // what holds something is accounted for by what becomes of that
	}
	if n.ledger.read == nil {
		n.ledger.read = map[string]bool{}
	}
	n.ledger.read[n.Path()] = true
}

// empty reports whether the value holds nothing. An explicit null in it is nothing, too.
func (n Node) empty() bool {
	switch v := n.value.(type) {
	case map[string]any, []any:
		return len(n.children()) == 0
	case string:
		return v == ""
	}
	return false
}

// At is a field below, by the names on the way.
func (n Node) At(names ...string) Node {
	for _, name := range names {
		n = n.Get(name)
	}
	return n
}

// Keys are the names of the node's fields, sorted; nil for what is no object.
func (n Node) Keys() []string {
	n.look()
	m, ok := n.value.(map[string]any)
	if !ok {
		if n.value != nil {
			n.wrongType("an object")
		}
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// Item is the element of a list with the given index; it is not there where the list
// is none, or shorter.
func (n Node) Item(index int) Node {
	child := Node{path: n.path.Index(index), ledger: n.ledger}
	if list, ok := n.value.([]any); ok && index >= 0 && index < len(list) {
		child.value = list[index]
	}
	return child
}

// Items are the elements of a list; nil for what is none.
func (n Node) Items() []Node {
	n.look()
	if _, ok := n.value.([]any); !ok && n.value != nil {
		n.wrongType("a list")
	}
	return n.items()
}

// items are the elements of a list, for whoever does not read it.
func (n Node) items() []Node {
	list, ok := n.value.([]any)
	if !ok {
		return nil
	}
	out := make([]Node, len(list))
	for i, v := range list {
		out[i] = Node{path: n.path.Index(i), value: v, ledger: n.ledger}
	}
	return out
}

// children are all nodes right below that hold a value.
func (n Node) children() []Node {
	out := n.items()
	if m, ok := n.value.(map[string]any); ok {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, n.child(k))
		}
	}
	return slices.DeleteFunc(out, func(child Node) bool { return !child.Exists() })
}

// Carried says that the value, and all below it, is in the result.
func (n Node) Carried(to string) { n.enter(Entry{Outcome: Carried, To: to}) }

// Changed says that the value has another meaning in the result.
func (n Node) Changed(to, reason, do string) {
	n.enter(Entry{Outcome: Changed, To: to, Reason: reason, Do: do})
}

// Lost says that the value is not in the result.
func (n Node) Lost(reason, do string) {
	n.enter(Entry{Outcome: Lost, Reason: reason, Do: do})
}

// Ignore accounts for what is no wish of the user's, such as what the API server
// writes; there is no entry for it.
func (n Node) Ignore() {
	if !n.Exists() {
		return
	}
	if n.ledger.settled == nil {
		n.ledger.settled = map[string]bool{}
	}
	n.ledger.settled[n.Path()] = true
}

func (n Node) enter(e Entry) {
	if !n.Exists() {
		return
	}
	e.Path = n.Path()
	n.ledger.enter(e)
}

// Invalid says that the value is a mistake.
func (n Node) Invalid(detail string) {
	n.Ignore()
	value := n.value
	switch value.(type) {
	case map[string]any, []any:
		value = field.OmitValueType{} // a message is one line
	}
	n.ledger.Mistake(field.Invalid(n.path, value, detail))
}

// Mistaken reports whether a mistake was found anywhere in the manifest so far.
func (n Node) Mistaken() bool { return len(n.ledger.mistakes) > 0 }

// Required says that a value is missing here.
func (n Node) Required(detail string) { n.ledger.Mistake(field.Required(n.path, detail)) }

// String is the text here; empty when there is none.
func (n Node) String() string {
	n.look()
	switch v := n.value.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		n.wrongType("a string")
		return ""
	}
}

// Bool is the truth value here; nil when there is none.
func (n Node) Bool() *bool {
	switch v := n.value.(type) {
	case nil:
	case bool:
		return &v
	default:
		n.wrongType("true or false")
	}
	return nil
}

// Int32 is the whole number here; nil when there is none.
func (n Node) Int32() *int32 {
	v := n.Int64()
	if v == nil {
		return nil
	}
	if *v < math.MinInt32 || *v > math.MaxInt32 {
		n.Invalid(fmt.Sprintf("must be from %d to %d", math.MinInt32, math.MaxInt32))
		return nil
	}
	small := int32(*v)
	return &small
}

// Int64 is the whole number here; nil when there is none.
func (n Node) Int64() *int64 {
	switch v := n.value.(type) {
	case nil:
		return nil
	case int64:
		return &v
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			whole := int64(v)
			return &whole
		}
	}
	n.wrongType("a whole number")
	return nil
}

// IntOrString is the number or text here as text; empty when there is none.
func (n Node) IntOrString() string {
	if _, ok := n.value.(string); ok || n.value == nil {
		return n.String()
	}
	if v := n.Int64(); v != nil {
		return strconv.FormatInt(*v, 10)
	}
	return ""
}

// StringMap is the object of texts here; nil when there is none.
func (n Node) StringMap() map[string]string {
	var out map[string]string
	for _, k := range n.Keys() {
		if out == nil {
			out = map[string]string{}
		}
		out[k] = n.Get(k).String()
	}
	return out
}

// Strings is the list of texts here; nil when there is none.
func (n Node) Strings() []string {
	var out []string
	for _, item := range n.Items() {
		out = append(out, item.String())
	}
	return out
}

// Tree is a copy of the value, for what is passed on as it is.
func (n Node) Tree() any {
	n.look()
	text, err := json.Marshal(n.value)
	if err != nil {
		return nil // it came from JSON
	}
	var out any
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&out); err != nil {
		return nil
	}
	return out
}

func (n Node) wrongType(want string) {
	n.Ignore()
	path := n.path
	if path == nil {
		path = field.NewPath("")
	}
	err := field.TypeInvalid(path, n.value, "must be "+want)
	if !slices.ContainsFunc(n.ledger.mistakes, func(have *field.Error) bool { return have.Field == err.Field && have.Detail == err.Detail }) {
		n.ledger.Mistake(err)
	}
}

// Note enters that something about this place is different now, which is no value of
// its own. What is below still has to be accounted for.
func (n Node) Note(reason, do string) {
	if n.Exists() {
		n.ledger.note(Entry{Path: n.Path(), Outcome: Changed, Reason: reason, Do: do})
	}
}

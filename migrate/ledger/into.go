package ledger

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"

	"rollcall.training/manifest/misfit"
)

// Into decodes the value into a Kubernetes type. Fields that the type does not have
// are entered as lost; a value of the wrong type is a mistake, and false.
func (n Node) Into(to any) bool {
	n.look()
	if !n.Exists() {
		return false
	}
	text, err := json.Marshal(n.value)
	if err != nil {
		n.Invalid(err.Error())
		return false
	}
	unknown, err := kjson.UnmarshalStrict(text, to)
	if err != nil {
		n.misfits(text, reflect.New(reflect.TypeOf(to).Elem()).Interface(), err)
		return false
	}
	for _, u := range unknown {
		n.unknown(u)
	}
	return true
}

// misfits says which values below do not fit a type. The error is that of a decoder which
// names no place; a fresh value of the type has another one say it.
func (n Node) misfits(text []byte, fresh any, err error) {
	found := misfit.Of(text, json.Unmarshal(text, fresh))
	if len(found) == 0 {
		n.Invalid("cannot be read: " + short(strings.TrimPrefix(err.Error(), "json: ")))
	}
	for _, m := range found {
		detail := m.Message
		if m.Fix != "" {
			detail += "; " + m.Fix
		}
		n.below(m.Path).Invalid(detail)
	}
}

// below is the node at a path within this one, or the nearest above it.
func (n Node) below(path string) Node {
	if n.path != nil {
		path = n.Path() + "." + path
	}
	for at := n; ; {
		children := at.children()
		i := slices.IndexFunc(children, func(c Node) bool {
			rest, ok := strings.CutPrefix(path, c.Path())
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if i < 0 {
			return at
		}
		at = children[i]
	}
}

// unknown enters a field that a Kubernetes type does not have, by the decoder's word
// for it: unknown field "spec.name".
func (n Node) unknown(err error) {
	name := err.Error()
	if _, quoted, ok := strings.Cut(name, `"`); ok {
		name = strings.TrimSuffix(quoted, `"`)
	}
	if !strings.HasPrefix(name, "[") {
		name = "." + name
	}
	n.ledger.enter(Entry{Path: n.Path() + name, Outcome: Lost,
		Reason: "Kubernetes has no such field here", Do: "see whether it is misspelt"})
}

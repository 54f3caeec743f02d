package ledger

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Beside is the root of another object that the manifest's own was read with, such as
// a runtime; its paths begin with the given name. [Ledger.SettleAll] settles it too.
func (l *Ledger) Beside(name string, tree map[string]any) Node {
	n := Node{path: field.NewPath(name), value: tree, ledger: l}
	l.beside = append(l.beside, n)
	return n
}

// SettleAll is [Ledger.Settle] for the node and for all that stands beside it.
func (l *Ledger) SettleAll(n Node) {
	l.Settle(n)
	for _, b := range l.beside {
		l.Settle(b)
	}
}

// Ledger is the account to which the node belongs.
func (n Node) Ledger() *Ledger { return n.ledger }

// Remark enters something about this place that is no value of its own. What is below
// still has to be accounted for.
func (n Node) Remark(o Outcome, to, reason, do string) {
	if n.Exists() {
		n.ledger.note(Entry{Path: n.Path(), Outcome: o, To: to, Reason: reason, Do: do})
	}
}

// Drop takes a field out of the tree, so that whoever reads it later finds none. What
// became of it has to be said before.
func (n Node) Drop(name string) {
	if m, ok := n.value.(map[string]any); ok {
		delete(m, name)
	}
}

// Retract takes back what was entered for this value, for whoever knows better.
func (n Node) Retract() {
	if !n.Exists() {
		return
	}
	path := n.Path()
	n.ledger.entries = slices.DeleteFunc(n.ledger.entries, func(e Entry) bool { return e.Path == path })
	delete(n.ledger.settled, path)
}

// Only enters every field of the object but the given ones as lost, for a reader who will
// account for the object as a whole.
func (n Node) Only(known ...string) {
	for _, child := range n.children() {
		if name := child.path.String(); !slices.ContainsFunc(known, func(k string) bool { return name == n.child(k).Path() }) {
			n.ledger.Settle(child)
		}
	}
}

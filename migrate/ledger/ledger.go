package ledger

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Outcome is what became of a field.
type Outcome string

// The outcomes, the best first.
const (
	// Carried fields mean in the result what they meant in the manifest.
	Carried Outcome = "carried"
	// Changed fields have a place in the result, and mean something else there, or do
	// it by other means.
	Changed Outcome = "changed"
	// Lost fields have no place in the result.
	Lost Outcome = "lost"
)

// Entry is the account of one field, or of a field with all that is in it.
type Entry struct {
	// Path is the field as users write it, such as spec.runPolicy.backoffLimit.
	Path string `json:"path"`
	// Outcome is what became of it.
	Outcome Outcome `json:"outcome"`
	// To is its place in the result, in words; empty when it has none.
	To string `json:"to,omitempty"`
	// Reason says why it changed or was lost; empty for what was carried.
	Reason string `json:"reason,omitempty"`
	// Do is what the user can do about it; empty when there is nothing to do.
	Do string `json:"do,omitempty"`
}

// Ledger is the account of one manifest. Its zero value is empty and ready.
type Ledger struct {
	entries  []Entry
	settled  map[string]bool // paths that are accounted for, with all below them
	read     map[string]bool // paths that a reader looked at
	mistakes field.ErrorList
	beside   []Node
}

// enter adds an entry. A path may have several: a field can be carried in one respect
// and changed in another.
func (l *Ledger) enter(e Entry) {
	if l.settled == nil {
		l.settled = map[string]bool{}
	}
	l.settled[e.Path] = true
	l.note(e)
}

// note adds an entry that settles nothing.
func (l *Ledger) note(e Entry) {
	if !slices.Contains(l.entries, e) {
		l.entries = append(l.entries, e)
	}
}

// Entries returns the account in the order of the paths. Call it after
// [Ledger.Settle].
func (l *Ledger) Entries() []Entry {
	out := slices.Clone(l.entries)
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// Mistakes lists what could not be read, in the order in which it was met.
func (l *Ledger) Mistakes() field.ErrorList { return l.mistakes }

// Mistake adds what is wrong with the manifest itself.
func (l *Ledger) Mistake(err *field.Error) { l.mistakes = append(l.mistakes, err) }

// Settle enters every value below the node that nobody accounted for as lost. What is
// empty wishes for nothing, and is not mentioned where a reader looked at it: it knows the
// field.
func (l *Ledger) Settle(n Node) {
	if !n.Exists() || l.settled[n.Path()] {
		return
	}
	children := n.children()
	for _, child := range children {
		l.Settle(child)
	}
	if n.empty() && l.read[n.Path()] || len(children) > 0 {
		return
	}
	l.enter(Entry{Path: n.Path(), Outcome: Lost,
		Reason: "this release does not know the field", Do: "see whether a Job or a StatefulSet has one for the same purpose"})
}

// short cuts a value for a message, which is one line.
func short(text string) string {
	const longest = 80
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}

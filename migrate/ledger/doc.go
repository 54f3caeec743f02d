// Package ledger keeps the account of a migration: what became of each field.
//
// # The idea
//
// A migration that forgets a field without a word is worse than none. So a
// manifest is read through a [Node], which remembers where it stands, and whoever
// reads a field says in the same breath what became of it: [Node.Carried],
// [Node.Changed] or [Node.Lost]. When the reader is done, [Ledger.Settle] looks
// for values that nobody accounted for and enters them as lost. A field that a
// reader does not know, since it is newer, older or misspelt, is thereby
// reported like every other, and nothing has to be done for it.
//
// Fields that have the wrong type are mistakes of the manifest, and are
// collected as such: [Ledger.Mistakes].
package ledger

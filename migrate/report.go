package migrate

import "rollcall.training/migrate/ledger"

// Report says what became of one object.
type Report struct {
	// Source names the file, and Document counts its documents from 1; 0 for a source that could not
	// be read as a whole.
	Source   string `json:"source,omitempty"`
	Document int    `json:"document,omitempty"`
	// Object names what was migrated: PyTorchJob team/train, without a namespace
	// where the manifest names none; empty for a document that could not be read.
	Object string `json:"object,omitempty"`
	// Into names what it became, as kubectl prints it; empty when it could not be
	// migrated.
	Into []string `json:"into,omitempty"`
	// Entries are the account of its fields, by their paths.
	Entries []ledger.Entry `json:"fields,omitempty"`
	// Warnings are what the webhook will say about the result.
	Warnings []string `json:"warnings,omitempty"`
	// Mistakes say why the object, or a job within it, was not migrated; empty when it was.
	Mistakes []string `json:"mistakes,omitempty"`
	// Through is true for an object that is no training job, and was passed on as it was.
	Through bool `json:"through,omitempty"`
}

// Failed reports whether the object, or a job within it, was not migrated.
func (r Report) Failed() bool { return len(r.Mistakes) > 0 }

// Count is the number of fields with the given outcome.
func (r Report) Count(o ledger.Outcome) int {
	n := 0
	for _, e := range r.Entries {
		if e.Outcome == o {
			n++
		}
	}
	return n
}

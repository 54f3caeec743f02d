package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/vet"
)

// Report describes what happened to one object.
type Report struct {
	// Source names the file.
	Source string `json:"source,omitempty"`
	// Document is the number of the document in the file, from 1. It is 0 for a file that cannot
	// be read.
	Document int `json:"document,omitempty"`
	// Object names the object, for example PyTorchJob team/train, without a namespace if the
	// manifest has none. It is empty for a document that cannot be read.
	Object string `json:"object,omitempty"`
	// Outputs names the new objects as kubectl prints them. It is empty if the object was not
	// migrated.
	Outputs []string `json:"outputs,omitempty"`
	// Entries are the outcomes of the fields, by path.
	Entries []source.Entry `json:"fields,omitempty"`
	// Warnings are those of the webhook for the new objects.
	Warnings []string `json:"warnings,omitempty"`
	// Findings are those of rollcall vet for the new objects that prevent the gang from training.
	Findings []Finding `json:"findings,omitempty"`
	// Errors explain why the object, or a job within it, was not migrated. It is empty otherwise.
	Errors []string `json:"errors,omitempty"`
	// Passthrough is true for an object that is not a training job and is unchanged.
	Passthrough bool `json:"passthrough,omitempty"`
	// Note explains why a Job or a StatefulSet is unchanged, or why the object is not in the output.
	Note string `json:"note,omitempty"`
}

// Finding is a finding of rollcall vet.
type Finding struct {
	// Code is the code of the check: rollcall vet --explain describes it.
	Code vet.Code `json:"code"`
	// Object is kind/name of the new object.
	Object string `json:"object"`
	// Field is the path of the field, or empty for the entire object.
	Field string `json:"field,omitempty"`
	// Message describes the problem, and Fix the remedy.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Failed reports whether the object, or a job within it, was not migrated.
func (r Report) Failed() bool { return len(r.Errors) > 0 }

// Count returns the number of fields with the given outcome.
func (r Report) Count(o source.Outcome) int {
	n := 0
	for _, e := range r.Entries {
		if e.Outcome == o {
			n++
		}
	}
	return n
}

// addErrors adds the errors of a manifest, with the lines of their fields.
func (r *Report) addErrors(errs field.ErrorList, line func(path string) int) {
	for _, err := range errs {
		text := err.Error()
		if n := line(err.Field); n > 0 {
			text = fmt.Sprintf("line %d: %s", n, text)
		}
		r.Errors = append(r.Errors, text)
	}
}

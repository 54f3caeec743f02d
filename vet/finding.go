package vet

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Advice  Severity = "advice"
)

// Severities lists them, the worst first.
func Severities() []Severity { return []Severity{Error, Warning, Advice} }

// AtLeast reports whether s is as bad as o, or worse.
func (s Severity) AtLeast(o Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), o)
}

// Finding is one thing that is wrong or unwise.
type Finding struct {
	// Code is the check that found it.
	Code Code `json:"code"`
	// Severity is the check's.
	Severity Severity `json:"severity"`
	// Source is the file.
	Source string `json:"source"`
	// Document counts the file's documents from 1; 0 when the file as a whole cannot be
	// read.
	Document int `json:"document,omitempty"`
	// Line is the line of the file, from 1; that of the field, or of the nearest one above
	// it. 0 when it is not known.
	Line int `json:"line,omitempty"`
	// Object is kind/name, the kind in lower case; empty when the document cannot be read.
	Object string `json:"object,omitempty"`
	// Namespace is the object's, the default of the command where it names none.
	Namespace string `json:"namespace,omitempty"`
	// Field is the path of the field; empty when it is about the whole object.
	Field string `json:"field,omitempty"`
	// Message says what is wrong, in one line.
	Message string `json:"message"`
	// Fix says what to do; empty where the message does.
	Fix string `json:"fix,omitempty"`
}

// Report is what [Run] found.
type Report struct {
	// Workloads is the number of labelled workloads that were looked at, those that switch
	// Rollcall off aside.
	Workloads int
	// Findings are in the order of the input; those of one object by their severity,
	// then by line, field and code.
	Findings []Finding
}

// Count is the number of findings of a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// sort brings findings about the same object together, in an order that depends on the
// input alone. Sources keep the order in which they were given.
func (r *Report) sort(sources []string) {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(sources, a.Source), slices.Index(sources, b.Source)),
			cmp.Compare(a.Document, b.Document),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Object, b.Object),
			cmp.Compare(slices.Index(Severities(), a.Severity), slices.Index(Severities(), b.Severity)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
	r.Findings = slices.Compact(r.Findings)
}

// remark is what a check says: the path of the field in the workload, what is wrong, and
// what to do.
type remark struct {
	field, message, fix string
	// own is true when the path is that in the object, where this is a CronJob.
	own bool
}

func say(field, message string, values ...any) remark {
	return remark{field: field, message: fmt.Sprintf(message, values...)}
}

func (r remark) do(fix string, values ...any) []remark {
	r.fix = fmt.Sprintf(fix, values...)
	return []remark{r}
}

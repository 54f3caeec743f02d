package vet

import (
	"cmp"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

// The severities, highest first.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// severities returns all severities, highest first.
func severities() []Severity { return []Severity{Error, Warning, Info} }

// AtLeast reports whether s is as high as the threshold or higher.
func (s Severity) AtLeast(threshold Severity) bool {
	return slices.Index(severities(), s) <= slices.Index(severities(), threshold)
}

// Finding is one mistake in the input.
type Finding struct {
	// Code is the code of the check that reported the finding.
	Code Code `json:"code"`
	// Severity is the severity of that check.
	Severity Severity `json:"severity"`
	// Source is the name of the file.
	Source string `json:"source"`
	// Document is the position of the document in the file, from 1. It is 0 if no document of the
	// file can be read.
	Document int `json:"document,omitempty"`
	// Line is the line of the field in the file, from 1. If the field is not in the file, Line is
	// the line of the nearest field above it. It is 0 if the line is unknown.
	Line int `json:"line,omitempty"`
	// Object is kind/name with the kind in lower case. It is empty if the document cannot be read.
	Object string `json:"object,omitempty"`
	// Namespace is the namespace of the object, or the default namespace of the command.
	Namespace string `json:"namespace,omitempty"`
	// Field is the path of the field. It is empty if the finding is about the entire object.
	Field string `json:"field,omitempty"`
	// Message describes the mistake and its consequence in one line.
	Message string `json:"message"`
	// Fix describes the remedy in one line. It is empty if Message contains the remedy.
	Fix string `json:"fix,omitempty"`
	// Rule is the rule of the policy, as scope/name. It is empty unless the code is PolicyViolated.
	Rule string `json:"rule,omitempty"`
	// SuppressedBy is the reason in the annotation that suppresses the finding; empty if none does.
	SuppressedBy string `json:"suppressedBy,omitempty"`
}

// Report is the result of [Run]. Its JSON is stable: later releases add fields, but never rename or remove any.
type Report struct {
	// Workloads is the number of checked workloads. It includes labeled workloads only, and
	// excludes those that opt out of injection.
	Workloads int `json:"workloads"`
	// Unchecked counts the objects that are no checked workloads. The kinds that rollcall migrate
	// converts come first.
	Unchecked []KindCount `json:"unchecked,omitempty"`
	// Errors, Warnings and Infos are the numbers of findings by severity.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Findings are in the order of the input. The findings of one object are sorted by severity,
	// line, field and code. Without findings, the list is empty and not nil.
	Findings []Finding `json:"findings"`
	// Suppressed are the findings that annotations suppress, in the same order.
	Suppressed []Finding `json:"suppressed,omitempty"`
}

// countFindings sets the numbers of findings by severity.
func (r *Report) countFindings() {
	for _, f := range r.Findings {
		switch f.Severity {
		case Error:
			r.Errors++
		case Warning:
			r.Warnings++
		default:
			r.Infos++
		}
	}
}

// sortFindings returns findings sorted by position in the input and without duplicates. The order depends only on
// the input. The sources keep the given order.
func sortFindings(findings []Finding, sources []string) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(sources, a.Source), slices.Index(sources, b.Source)),
			cmp.Compare(a.Document, b.Document),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Object, b.Object),
			cmp.Compare(slices.Index(severities(), a.Severity), slices.Index(severities(), b.Severity)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}

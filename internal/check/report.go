package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"rollcall.training/gang"
	"rollcall.training/internal/text"
)

// Status is the status of a [Result].
type Status string

// The statuses, the most severe first.
const (
	// Error means that gangs do not work.
	Error Status = "error"
	// Warning means that gangs work, but that a fault or a setting can prevent it.
	Warning Status = "warning"
	// Unknown means that the facts could not be read.
	Unknown Status = "unknown"
	// OK means that there is no problem.
	OK Status = "ok"
)

// statuses returns all statuses, the most severe first.
func statuses() []Status { return []Status{Error, Warning, Unknown, OK} }

// Result is the result of one check. A check with several problems has several results.
type Result struct {
	// Code is the code of the check.
	Code Code `json:"code"`
	// Status is the status of the check.
	Status Status `json:"status"`
	// Message describes what was found in one line.
	Message string `json:"message"`
	// Fix describes the remedy in one line. It is empty if the status is OK.
	Fix string `json:"fix,omitempty"`
}

// Report is the result of [Judge]. Its JSON is a stable interface: later releases add fields, but never
// rename or remove any.
type Report struct {
	// Installed is true if the checks of an installation ran.
	Installed bool `json:"installed"`
	// Release and Namespace identify the installation. They are empty if it was not found.
	Release   string `json:"release,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Errors, Warnings and Unknown count the results.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Unknown  int `json:"unknown"`
	// Results are in the order of [Codes].
	Results []Result `json:"results"`
}

// add appends the results of a check and counts them.
func (r *Report) add(results []Result) {
	for _, result := range results {
		switch result.Status {
		case Error:
			r.Errors++
		case Warning:
			r.Warnings++
		case Unknown:
			r.Unknown++
		}
	}
	r.Results = append(r.Results, results...)
}

// Has reports whether a result has the given status or a more severe status.
func (r Report) Has(threshold Status) bool {
	return slices.ContainsFunc(r.Results, func(result Result) bool { return result.IsAsSevereAs(threshold) })
}

// IsAsSevereAs reports whether a result has the given status or a more severe status.
func (r Result) IsAsSevereAs(threshold Status) bool {
	return slices.Index(statuses(), r.Status) <= slices.Index(statuses(), threshold)
}

// Print writes one line for each result, the fix of each problem below it, and a line with the numbers.
func Print(out io.Writer, r Report) error {
	var text strings.Builder
	width := 0
	for _, result := range r.Results {
		width = max(width, len(result.Code))
	}
	for _, result := range r.Results {
		fmt.Fprintf(&text, "%-7s  %-*s  %s\n", result.Status, width, result.Code, result.Message)
		if result.Fix != "" {
			fmt.Fprintf(&text, "%*sfix: %s\n", 9+width+2, "", result.Fix)
		}
	}
	passed := len(r.Results) - r.Errors - r.Warnings - r.Unknown
	fmt.Fprintf(&text, "\n%d ok, %d unknown, %s, %s\n", passed, r.Unknown,
		gang.FormatCount(r.Warnings, "warning"), gang.FormatCount(r.Errors, "error"))
	_, err := io.WriteString(out, text.String())
	return err
}

// maxListed is the number of names that a message lists.
const maxListed = 5

// joinNames lists names for a message.
func joinNames(names []string) string { return gang.SummarizeNames(names, maxListed) }

// reporter collects the results of one check.
type reporter struct {
	code    Code
	results []Result
}

func (r *reporter) add(status Status, fix, format string, args ...any) {
	r.results = append(r.results, Result{Code: r.code, Status: status, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *reporter) ok(format string, args ...any)           { r.add(OK, "", format, args...) }
func (r *reporter) fail(fix, format string, args ...any)    { r.add(Error, fix, format, args...) }
func (r *reporter) warn(fix, format string, args ...any)    { r.add(Warning, fix, format, args...) }
func (r *reporter) unknown(fix, format string, args ...any) { r.add(Unknown, fix, format, args...) }

// addUnread reports that facts could not be read. The error of an API server names the missing permission.
func (r *reporter) addUnread(what string, err error) {
	fix := ""
	if apierrors.IsForbidden(err) {
		fix = "grant this permission"
	}
	r.unknown(fix, "%s: %s", what, shortenError(err))
}

// shortenError returns the text of an error in one line.
func shortenError(err error) string { return gang.ShortenText(text.JoinLines(err.Error())) }

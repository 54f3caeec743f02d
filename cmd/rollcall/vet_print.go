package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"rollcall.training/gang"
	"rollcall.training/internal/text"
	"rollcall.training/internal/vet"
)

// printText prints findings as text. Findings of one object share a heading. A heading shows the
// namespace of an object only if it is not that of --namespace. A report without findings is one line. If
// the input has no labeled workloads, the last line describes its content instead.
func (o *vetOptions) printText(out io.Writer, r vet.Report) error {
	namespace := o.engine.namespace
	workloads := gang.FormatCount(r.Workloads, "workload")
	switch {
	case len(r.Findings) == 0 && r.Workloads == 0:
		_, err := fmt.Fprintln(out, r.ExplainUnchecked())
		return err
	case len(r.Findings) == 0:
		_, err := fmt.Fprintf(out, "%s, no findings%s\n", workloads, formatSuppressed(r))
		return err
	}
	var text strings.Builder
	for rest := r.Findings; len(rest) > 0; {
		heading := formatHeading(rest[0], namespace)
		n := 1
		for n < len(rest) && formatHeading(rest[n], namespace) == heading {
			n++
		}
		fmt.Fprintln(&text, heading)
		printFindings(&text, rest[:n])
		fmt.Fprintln(&text)
		rest = rest[n:]
	}
	fmt.Fprintf(&text, "%s: %s, %s, %d info%s; run %s --explain CODE for details\n",
		workloads, gang.FormatCount(r.Errors, "error"), gang.FormatCount(r.Warnings, "warning"),
		r.Infos, formatSuppressed(r), o.commandPath)
	if r.Workloads == 0 {
		fmt.Fprintln(&text, r.ExplainUnchecked())
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// formatSuppressed returns the number of suppressed findings with a comma; empty without any.
func formatSuppressed(r vet.Report) string {
	if len(r.Suppressed) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d suppressed", len(r.Suppressed))
}

// formatHeading returns the file and the object of a finding. For a document without an object it
// returns the file and the number of the document.
func formatHeading(f vet.Finding, namespace string) string {
	text := f.Source
	switch {
	case f.Object != "":
		text += ": " + f.Object
	case f.Document > 0:
		text += fmt.Sprintf(": document %d", f.Document)
	}
	if f.Object != "" && f.Namespace != "" && f.Namespace != namespace {
		text += " in " + f.Namespace
	}
	return text
}

// printFindings prints the severity, code, line and field of each finding, and its message and fix
// on the next lines. Codes are aligned.
func printFindings(text *strings.Builder, findings []vet.Finding) {
	const indent = "           "
	codeWidth := 0
	for _, f := range findings {
		codeWidth = max(codeWidth, len(f.Code))
	}
	for _, f := range findings {
		var position []string
		if f.Line > 0 {
			position = append(position, fmt.Sprintf("line %d", f.Line))
		}
		if f.Field != "" {
			position = append(position, f.Field)
		}
		summary := fmt.Sprintf("%-*s  %s", codeWidth, f.Code, strings.Join(position, ", "))
		fmt.Fprintf(text, "  %-7s  %s\n", f.Severity, strings.TrimSpace(summary))
		fmt.Fprintln(text, indent+f.Message)
		if f.Fix != "" {
			fmt.Fprintln(text, indent+"fix: "+f.Fix)
		}
	}
}

// listChecks prints a table of all checks.
func listChecks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CODE\tSEVERITY\tTITLE")
	for _, check := range vet.Checks() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", check.Code, check.Severity, check.Title)
	}
	return w.Flush()
}

// maxTextWidth is the width of explanations in characters.
const maxTextWidth = 88

// explainCheck prints the explanation of the check of --explain.
func (o *vetOptions) explainCheck(out io.Writer) error {
	check, err := o.findCheck(o.explain)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s (%s): %s.\n\n%s\n\n%s\n",
		check.Code, check.Severity, check.Title,
		text.Wrap(check.Why, maxTextWidth), text.Wrap("Fix: "+check.Fix, maxTextWidth))
	return err
}

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"rollcall.training/vet"
)

// printReport writes the findings for people: those about one object together, and no
// more than a line when there are none.
func printReport(out io.Writer, r vet.Report, namespace string) error {
	workloads := count(r.Workloads, "workload")
	if len(r.Findings) == 0 {
		_, err := fmt.Fprintf(out, "%s, nothing to say\n", workloads)
		return err
	}
	var text strings.Builder
	for rest := r.Findings; len(rest) > 0; {
		n := 1
		for n < len(rest) && heading(rest[n], namespace) == heading(rest[0], namespace) {
			n++
		}
		fmt.Fprintln(&text, heading(rest[0], namespace))
		printFindings(&text, rest[:n])
		fmt.Fprintln(&text)
		rest = rest[n:]
	}
	fmt.Fprintf(&text, "%s: %s, %s, %d advice; rollcall vet --explain CODE tells more\n",
		workloads, count(r.Count(vet.Error), "error"), count(r.Count(vet.Warning), "warning"), r.Count(vet.Advice))
	_, err := io.WriteString(out, text.String())
	return err
}

// heading says what a finding is about.
func heading(f vet.Finding, namespace string) string {
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

// printFindings puts what is said of a field below the severity, the code and the place.
func printFindings(text *strings.Builder, findings []vet.Finding) {
	const indent = "           "
	codes := 0
	for _, f := range findings {
		codes = max(codes, len(f.Code))
	}
	for _, f := range findings {
		var at []string
		if f.Line > 0 {
			at = append(at, fmt.Sprintf("line %d", f.Line))
		}
		if f.Field != "" {
			at = append(at, f.Field)
		}
		fmt.Fprintf(text, "  %-7s  %s\n", f.Severity, strings.TrimSpace(fmt.Sprintf("%-*s  %s", codes, f.Code, strings.Join(at, ", "))))
		fmt.Fprintln(text, indent+f.Message)
		if f.Fix != "" {
			fmt.Fprintln(text, indent+"fix: "+f.Fix)
		}
	}
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func listChecks(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CODE\tSEVERITY\tWHAT")
	for _, c := range vet.Checks() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Code, c.Severity, c.Title)
	}
	return w.Flush()
}

func explainCheck(out io.Writer, code string) error {
	c, err := findCheck(code)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s (%s): %s.\n\n%s\n\nFix: %s\n", c.Code, c.Severity, c.Title, c.Why, c.Fix)
	return err
}

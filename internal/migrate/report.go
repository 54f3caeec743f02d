package migrate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
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
	Findings []vet.Finding `json:"findings,omitempty"`
	// Errors explain why the object, or a job within it, was not migrated. It is empty otherwise.
	Errors []string `json:"errors,omitempty"`
	// Passthrough is true for an object that is not a training job and is unchanged.
	Passthrough bool `json:"passthrough,omitempty"`
	// Note explains why a Job or a StatefulSet is unchanged, or why the object is not in the output.
	Note string `json:"note,omitempty"`
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

// WriteText writes the reports for people: first dropped fields, then changed fields, then the
// number of preserved fields. With all, it also describes the changes that apply to all jobs of a
// system, and lists the preserved fields.
func WriteText(w io.Writer, reports []Report, all bool) error {
	var out strings.Builder
	for i, r := range reports {
		if i > 0 {
			out.WriteByte('\n')
		}
		r.writeText(&out, all)
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// detailIndent is the width of the outcome column.
const detailIndent = "            "

func (r Report) writeText(out *strings.Builder, all bool) {
	if r.Object == "" {
		for _, m := range r.Errors {
			fmt.Fprintf(out, "error: %s\n", m)
		}
		return
	}
	r.writeHeader(out)
	for _, m := range r.Errors {
		fmt.Fprintf(out, "  error     %s\n", m)
	}
	if r.Failed() && !r.Passthrough || r.Note != "" {
		return
	}
	for _, outcome := range []source.Outcome{source.Dropped, source.Changed} {
		r.writeEntries(out, outcome, all)
	}
	r.writeTopics(out, all)
	r.writeFindings(out)
	if n := r.Count(source.Preserved); all {
		r.writeEntries(out, source.Preserved, all)
	} else if n > 0 || len(r.Outputs) > 0 {
		fmt.Fprintf(out, "  preserved %s\n", gang.FormatCount(n, "field"))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(out, "  warning   %s\n", warning)
	}
}

// writeHeader writes the line with the object and its result.
func (r Report) writeHeader(out *strings.Builder) {
	fmt.Fprintf(out, "%s (%s", r.Object, r.Source)
	if r.Document > 0 {
		fmt.Fprintf(out, ", document %d", r.Document)
	}
	out.WriteString(")")
	switch {
	case r.Note != "":
		fmt.Fprintf(out, ": %s", r.Note)
	case r.Passthrough:
		out.WriteString(": passed through")
	case r.Failed():
		out.WriteString(": not migrated")
	case len(r.Outputs) > 0:
		fmt.Fprintf(out, " -> %s", strings.Join(r.Outputs, ", "))
	}
	out.WriteByte('\n')
}

func (r Report) writeFindings(out *strings.Builder) {
	for _, f := range r.Findings {
		fmt.Fprintf(out, "  %-9s %s %s\n%s%s\n", f.Code, f.Object, f.Field, detailIndent, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(out, "%saction: %s\n", detailIndent, f.Fix)
		}
	}
}

// writeTopics writes one line for the changes that apply to all jobs of the system, unless all entries
// are written.
func (r Report) writeTopics(out *strings.Builder, all bool) {
	var topics []string
	for _, e := range r.Entries {
		if topic := string(e.Topic); topic != "" && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	if kind, _, _ := strings.Cut(r.Object, " "); len(topics) > 0 && !all {
		fmt.Fprintf(out, "  changed   as in every %s: %s; -v describes the changes\n", kind, strings.Join(topics, ", "))
	}
}

// writeEntries writes the entries with the given outcome. Without all, it omits those with a topic.
func (r Report) writeEntries(out *strings.Builder, outcome source.Outcome, all bool) {
	for _, e := range r.Entries {
		if e.Outcome != outcome || e.Topic != "" && !all {
			continue
		}
		fmt.Fprintf(out, "  %-9s %s", e.Outcome, e.Path)
		if e.To != "" {
			fmt.Fprintf(out, " -> %s", e.To)
		}
		out.WriteByte('\n')
		if e.Reason != "" {
			fmt.Fprintf(out, "%s%s\n", detailIndent, e.Reason)
		}
		if e.Action != "" {
			fmt.Fprintf(out, "%saction: %s\n", detailIndent, e.Action)
		}
	}
}

package migrate

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"rollcall.training/migrate/ledger"
)

// WriteJSON writes the reports as one JSON document, a list.
func WriteJSON(w io.Writer, reports []Report) error {
	if reports == nil {
		reports = []Report{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(reports); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// WriteText writes the reports for people: first what was lost, then what changed, then
// how much was carried; each carried field too, if all is true.
func WriteText(w io.Writer, reports []Report, all bool) error {
	var out strings.Builder
	for i, r := range reports {
		if i > 0 {
			out.WriteByte('\n')
		}
		r.text(&out, all)
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// indent is the width of the column with the outcomes.
const indent = "           "

func (r Report) text(out *strings.Builder, all bool) {
	if r.Object == "" {
		for _, m := range r.Mistakes {
			fmt.Fprintf(out, "error: %s\n", m)
		}
		return
	}
	fmt.Fprintf(out, "%s (%s", r.Object, r.Source)
	if r.Document > 0 {
		fmt.Fprintf(out, ", document %d", r.Document)
	}
	out.WriteString(")")
	switch {
	case r.Through:
		out.WriteString(": passed on as it was")
	case r.Failed():
		out.WriteString(": not migrated")
	}
	if r.Failed() {
		out.WriteByte('\n')
		fmt.Fprintf(out, "  error    %s", strings.Join(r.Mistakes, "\n  error    "))
	}
	if r.Failed() && !r.Through {
		out.WriteByte('\n')
		return
	}
	if len(r.Into) > 0 {
		fmt.Fprintf(out, " -> %s", strings.Join(r.Into, ", "))
	}
	out.WriteString("\n")
	for _, o := range []ledger.Outcome{ledger.Lost, ledger.Changed} {
		for _, e := range r.Entries {
			if e.Outcome == o {
				line(out, e)
			}
		}
	}
	r.carried(out, all)
	for _, warning := range r.Warnings {
		fmt.Fprintf(out, "  warning  %s\n", warning)
	}
}

// carried writes the fields that were carried, each or how many.
func (r Report) carried(out *strings.Builder, all bool) {
	n := r.Count(ledger.Carried)
	if !all && (n > 0 || len(r.Into) > 0) {
		fmt.Fprintf(out, "  carried  %s\n", count(n, "field"))
	}
	for _, e := range r.Entries {
		if all && e.Outcome == ledger.Carried {
			line(out, e)
		}
	}
}

func line(out *strings.Builder, e ledger.Entry) {
	fmt.Fprintf(out, "  %-8s %s", e.Outcome, e.Path)
	if e.To != "" {
		fmt.Fprintf(out, " -> %s", e.To)
	}
	out.WriteByte('\n')
	if e.Reason != "" {
		fmt.Fprintf(out, "%s%s\n", indent, e.Reason)
	}
	if e.Do != "" {
		fmt.Fprintf(out, "%sto do: %s\n", indent, e.Do)
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

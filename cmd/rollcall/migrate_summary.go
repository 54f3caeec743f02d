package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate"
	"rollcall.training/internal/migrate/source"
	"rollcall.training/internal/text"
)

// migrationSummary counts the objects of a migration by kind and outcome. Its fields are stable.
type migrationSummary struct {
	Kinds []kindSummary `json:"kinds"`
	Total kindSummary   `json:"total"`
	// Reasons are the most frequent reasons, most frequent first.
	Reasons []reasonCount `json:"reasons"`
	// Objects are those that need work, in the order of the report.
	Objects []objectOutcome `json:"objects,omitempty"`
	// KeptNames are the objects of the output that --name-suffix does not rename.
	KeptNames []string `json:"keptNames,omitempty"`
}

// objectOutcome is an object with an outcome other than clean and unchanged.
type objectOutcome struct {
	// Source is the file, or the word cluster. Document is the number in the file, or 0 if the file cannot be read.
	Source   string `json:"source"`
	Document int    `json:"document,omitempty"`
	Object   string `json:"object,omitempty"`
	Outcome  string `json:"outcome"`
	// IsCopied is true if the output contains the object although it is a former job, or has one in it.
	IsCopied bool `json:"copied,omitempty"`
}

// place is the file of an object, or the object if it is from a cluster.
func (o objectOutcome) place() string {
	if o.Source == clusterSourceName {
		return cmp.Or(o.Object, o.Source)
	}
	return o.Source
}

// kindSummary counts objects by their worst outcome.
type kindSummary struct {
	Kind string `json:"kind"`
	// Clean is the number of objects without an action for the user, except those of every job of the system.
	Clean       int `json:"clean"`
	Action      int `json:"action"`
	Dropped     int `json:"dropped"`
	NotMigrated int `json:"notMigrated"`
	Unchanged   int `json:"unchanged"`
}

// reasonCount is a reason with the number of objects that have it.
type reasonCount struct {
	Objects int    `json:"objects"`
	Reason  string `json:"reason"`
}

const (
	// maxReasons and maxReasonLength limit the reasons of a table, which fits on a screen.
	maxReasons, maxReasonLength = 10, 100
	// maxPlaces limits the files and the copied objects of a table.
	maxPlaces = 8
	// otherKinds is the row of the objects without a report, unreadableKind that of the documents that cannot be read.
	otherKinds, unreadableKind = "other kinds", "unreadable"
)

// summarize counts the objects of the reports and of the documents.
func summarize(docs []*manifest.Document, reports []migrate.Report) migrationSummary {
	s := migrationSummary{Total: kindSummary{Kind: "total"}}
	kinds, reasons := map[string]*kindSummary{}, map[string]int{}
	others := len(manifest.ListObjects(docs))
	for _, r := range reports {
		kind, _, _ := strings.Cut(cmp.Or(r.Object, unreadableKind), " ")
		outcome := outcomeOf(r)
		countOutcome(kinds, kind, outcome)
		s.Total.add(outcome)
		if outcome != outcomeClean && outcome != outcomeUnchanged {
			s.Objects = append(s.Objects, objectOutcome{
				Source: r.Source, Document: r.Document, Object: r.Object, Outcome: outcome, IsCopied: r.Passthrough && r.Failed(),
			})
		}
		for _, reason := range reasonsOf(r) {
			reasons[reason]++
		}
		if r.Object != "" && r.Source != clusterSourceName {
			others--
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s.Kinds = append(s.Kinds, *kinds[kind])
	}
	if others > 0 {
		s.Kinds = append(s.Kinds, kindSummary{Kind: otherKinds, Unchanged: others})
		s.Total.Unchanged += others
	}
	for reason, n := range reasons {
		s.Reasons = append(s.Reasons, reasonCount{Objects: n, Reason: reason})
	}
	slices.SortFunc(s.Reasons, func(a, b reasonCount) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Reason, b.Reason))
	})
	s.Reasons = s.Reasons[:min(len(s.Reasons), maxReasons)]
	return s
}

// The outcomes of an object, by the fields of kindSummary.
const (
	outcomeClean       = "clean"
	outcomeAction      = "action"
	outcomeDropped     = "dropped"
	outcomeNotMigrated = "notMigrated"
	outcomeUnchanged   = "unchanged"
)

// outcomeOf returns the worst outcome of an object.
func outcomeOf(r migrate.Report) string {
	hasAction := func(e source.Entry) bool { return e.Action != "" && e.Topic == "" }
	switch {
	case r.Failed():
		return outcomeNotMigrated
	case r.Count(source.Dropped)+len(r.Findings) > 0:
		return outcomeDropped
	case slices.ContainsFunc(r.Entries, hasAction):
		return outcomeAction
	case len(r.Outputs) > 0:
		return outcomeClean
	}
	return outcomeUnchanged
}

// add counts an object.
func (k *kindSummary) add(outcome string) {
	switch outcome {
	case outcomeClean:
		k.Clean++
	case outcomeAction:
		k.Action++
	case outcomeDropped:
		k.Dropped++
	case outcomeNotMigrated:
		k.NotMigrated++
	case outcomeUnchanged:
		k.Unchanged++
	}
}

// countOutcome counts an object in the row of the given name.
func countOutcome(rows map[string]*kindSummary, name, outcome string) {
	if rows[name] == nil {
		rows[name] = &kindSummary{Kind: name}
	}
	rows[name].add(outcome)
}

// Parts of a reason that differ between objects: lines, indices and values, and the names of a conflict.
var (
	variableParts = regexp.MustCompile(`^line \d+: |Invalid value: ("(\\.|[^"])*"|\S+): |\[\d+\]`)
	conflictNames = regexp.MustCompile(`^the name of \S+ \S+ exists already: .*;`)
)

// reasonsOf returns the reasons why an object was not migrated, or why it lost fields or cannot train. Equal reasons
// of several objects are equal texts.
func reasonsOf(r migrate.Report) []string {
	var reasons []string
	for _, text := range r.Errors {
		reasons = append(reasons, "not migrated: "+text)
	}
	for _, f := range r.Findings {
		reasons = append(reasons, fmt.Sprintf("%s: run rollcall vet --explain %s", f.Code, f.Code))
	}
	for _, e := range r.Entries {
		if e.Outcome == source.Dropped {
			reasons = append(reasons, strings.TrimSuffix(fmt.Sprintf("dropped: %s: %s", e.Path, e.Reason), ": "))
		}
	}
	for i, reason := range reasons {
		prefix, rest, _ := strings.Cut(reason, ": ")
		rest = conflictNames.ReplaceAllString(variableParts.ReplaceAllString(rest, ""), "another object has the name;")
		reasons[i] = text.JoinLines(prefix + ": " + rest)
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// print prints a summary as tables or as JSON.
func (s migrationSummary) print(out io.Writer, format string) error {
	if format == outputJSON {
		return printJSON(out, s, "  ")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tCLEAN\tACTION\tDROPPED\tNOT MIGRATED\tUNCHANGED")
	for _, k := range append(slices.Clone(s.Kinds), s.Total) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", k.Kind, k.Clean, k.Action, k.Dropped, k.NotMigrated, k.Unchanged)
	}
	var reasons, places, copied []string
	for _, r := range s.Reasons {
		reasons = append(reasons, fmt.Sprintf("%d\t%s", r.Objects, text.Shorten(r.Reason, maxReasonLength)))
	}
	for _, r := range s.countPlaces() {
		places = append(places, fmt.Sprintf("%d\t%d\t%d\t%s", r.Action, r.Dropped, r.NotMigrated, r.Kind))
	}
	for _, o := range s.Objects {
		if o.IsCopied { // kubectl apply would create the former job again
			copied = append(copied, fmt.Sprintf("%s\t%s, document %d", o.Object, o.Source, o.Document))
		}
	}
	printRows(w, "OBJECTS\tREASON", reasons, maxReasons)
	printRows(w, "ACTION\tDROPPED\tNOT MIGRATED\tFILE", places, maxPlaces)
	printRows(w, "COPY TO REMOVE OR CONVERT\tFILE", copied, maxPlaces)
	return w.Flush()
}

// countPlaces counts the objects that need work by file. The file with the most work is the first.
func (s migrationSummary) countPlaces() []*kindSummary {
	byPlace := map[string]*kindSummary{}
	for _, o := range s.Objects {
		countOutcome(byPlace, o.place(), o.Outcome)
	}
	return slices.SortedFunc(maps.Values(byPlace), func(a, b *kindSummary) int {
		work := func(k *kindSummary) int { return k.Action + k.Dropped + k.NotMigrated }
		return cmp.Or(cmp.Compare(work(b), work(a)), cmp.Compare(a.Kind, b.Kind))
	})
}

// printRows prints the first rows of a table, and how many it does not have.
func printRows(w io.Writer, header string, rows []string, limit int) {
	if len(rows) > 0 {
		fmt.Fprintln(w, "\n"+header)
	}
	for _, row := range rows[:min(len(rows), limit)] {
		fmt.Fprintln(w, row)
	}
	if len(rows) > limit {
		fmt.Fprintf(w, "%d more: -o json lists all objects\n", len(rows)-limit)
	}
}

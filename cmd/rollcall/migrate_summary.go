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
		if kinds[kind] == nil {
			kinds[kind] = &kindSummary{Kind: kind}
		}
		kinds[kind].add(r)
		s.Total.add(r)
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

// add counts an object by its worst outcome.
func (k *kindSummary) add(r migrate.Report) {
	hasAction := func(e source.Entry) bool { return e.Action != "" && e.Topic == "" }
	switch {
	case r.Failed():
		k.NotMigrated++
	case r.Count(source.Dropped)+len(r.Findings) > 0:
		k.Dropped++
	case slices.ContainsFunc(r.Entries, hasAction):
		k.Action++
	case len(r.Outputs) > 0:
		k.Clean++
	default:
		k.Unchanged++
	}
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
	if len(s.Reasons) > 0 {
		fmt.Fprintln(w, "\nOBJECTS\tREASON")
	}
	for _, r := range s.Reasons {
		fmt.Fprintf(w, "%d\t%s\n", r.Objects, text.Shorten(r.Reason, maxReasonLength))
	}
	return w.Flush()
}

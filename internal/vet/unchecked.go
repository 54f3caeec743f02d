package vet

import (
	"cmp"
	"slices"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/source"
)

// KindCount is the number of objects of one kind.
type KindCount struct {
	manifest.KindCount
	// Migratable is true if rollcall migrate converts objects of this kind.
	Migratable bool `json:"migratable,omitempty"`
}

// countUnchecked counts the objects that are no labeled workloads, by kind. Jobs that rollcall
// migrate converts come first, then workloads without a label, then all others.
func (in *input) countUnchecked() []KindCount {
	var unchecked []manifest.Object
	areWorkloads := map[string]bool{}
	for _, o := range in.objects {
		if o.labeled == nil {
			unchecked = append(unchecked, o.Object)
			areWorkloads[o.Kind] = areWorkloads[o.Kind] || o.isWorkload()
		}
	}
	var counts []KindCount
	for _, c := range manifest.CountKinds(unchecked) {
		counts = append(counts, KindCount{KindCount: c, Migratable: source.IsJobKind(c.Group, c.Kind)})
	}
	order := func(c KindCount) int {
		switch {
		case c.Migratable:
			return 0
		case areWorkloads[c.Kind]:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(counts, func(a, b KindCount) int { return cmp.Compare(order(a), order(b)) })
	return counts
}

// ExplainUnchecked describes what the input contains instead of labeled workloads, in one line. It
// returns an empty string if the input contains labeled workloads.
func (r Report) ExplainUnchecked() string {
	if r.Workloads > 0 {
		return ""
	}
	const missing = "no object has the label " + gang.LabelFramework
	if len(r.Unchecked) == 0 {
		return missing + ", and the input contains no object"
	}
	var found []string
	for _, c := range r.Unchecked {
		found = append(found, c.String())
	}
	text := missing + "; found " + strings.Join(found, ", ")
	if r.Unchecked[0].Migratable {
		text += "; convert with rollcall migrate"
	}
	return text
}

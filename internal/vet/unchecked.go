package vet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rollcall.training/gang"
)

// KindCount is the number of objects of one kind.
type KindCount struct {
	// Group is the API group of the kind. It is empty for the core group.
	Group string `json:"group,omitempty"`
	// Kind is the kind of the objects, such as PyTorchJob.
	Kind string `json:"kind"`
	// Count is at least 1.
	Count int `json:"count"`
	// Migratable is true if rollcall migrate converts objects of this kind.
	Migratable bool `json:"migratable,omitempty"`
}

// migratableGroups are the API groups whose jobs rollcall migrate converts, and their kinds. An
// empty list means all kinds.
var migratableGroups = map[string][]string{
	"kubeflow.org":         nil,
	"trainer.kubeflow.org": {"TrainJob"},
	"jobset.x-k8s.io":      {"JobSet"},
	"batch.volcano.sh":     {"Job"},
}

// countUnchecked counts the objects that are no labeled workloads, by kind. Jobs that rollcall
// migrate converts come first, then workloads without a label, then all others.
func (in *input) countUnchecked() []KindCount {
	var counts []KindCount
	areWorkloads := map[string]bool{}
	for _, o := range in.objects {
		if o.labeled != nil || o.Kind == "" {
			continue
		}
		kind := KindCount{Group: o.apiGroup(), Kind: o.Kind}
		areWorkloads[kind.Kind] = areWorkloads[kind.Kind] || o.isWorkload()
		i := slices.IndexFunc(counts, func(c KindCount) bool { return c.Group == kind.Group && c.Kind == kind.Kind })
		if i < 0 {
			i = len(counts)
			kinds, isMigratable := migratableGroups[kind.Group]
			kind.Migratable = isMigratable && (len(kinds) == 0 || slices.Contains(kinds, kind.Kind))
			counts = append(counts, kind)
		}
		counts[i].Count++
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
	slices.SortFunc(counts, func(a, b KindCount) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	return counts
}

// apiGroup returns the API group of the object. It is empty for the core group.
func (o *inputObject) apiGroup() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// ExplainUnchecked describes what the input contains instead of labeled workloads, in one line. It
// returns an empty string if the input contains labeled workloads.
func (r Report) ExplainUnchecked() string {
	if r.Workloads > 0 {
		return ""
	}
	const missing = "no object has the label " + gang.LabelFramework
	if len(r.Unchecked) == 0 {
		return missing + ", and the input is empty"
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

// String returns the count and the kind, such as "2 PyTorchJobs". It names the API group of a Job
// that is not a Job of Kubernetes.
func (c KindCount) String() string {
	kind := c.Kind
	switch {
	case c.Count == 1:
	case strings.HasSuffix(kind, "s"):
		kind += "es"
	case strings.HasSuffix(kind, "y"):
		kind = strings.TrimSuffix(kind, "y") + "ies"
	default:
		kind += "s"
	}
	if c.Kind == string(gang.Job) && c.Group != "batch" {
		kind += " of " + c.Group
	}
	return fmt.Sprintf("%d %s", c.Count, kind)
}

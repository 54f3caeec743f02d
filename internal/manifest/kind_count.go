package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindCount is the number of objects of one kind.
type KindCount struct {
	// Group is the API group of the kind. It is empty for the core group.
	Group string `json:"group,omitempty"`
	// Kind is the kind of the objects, such as PyTorchJob.
	Kind string `json:"kind"`
	// Count is at least 1.
	Count int `json:"count"`
}

// CountKinds counts objects by kind. The result is sorted by kind and group.
func CountKinds(objects []Object) []KindCount {
	byKind := map[schema.GroupKind]int{}
	for _, o := range objects {
		byKind[schema.GroupKind{Group: o.APIGroup(), Kind: o.Kind}]++
	}
	var counts []KindCount
	for kind, n := range byKind {
		counts = append(counts, KindCount{Group: kind.Group, Kind: kind.Kind, Count: n})
	}
	slices.SortFunc(counts, func(a, b KindCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	return counts
}

// APIGroup returns the API group of the object. It is empty for the core group.
func (o Object) APIGroup() string { return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group }

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
	if c.Kind == "Job" && c.Group != batchv1.GroupName {
		kind += " of " + c.Group
	}
	return fmt.Sprintf("%d %s", c.Count, kind)
}

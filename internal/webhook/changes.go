package webhook

import (
	"slices"

	"rollcall.training/gang"
	"rollcall.training/internal/fieldpath"
	"rollcall.training/internal/injection"
)

// maxChanges limits the paths in a message.
const maxChanges = 5

// listChanges returns the paths of the fields in which two versions of a workload differ, except for
// different records of Rollcall. The result ends with "…" if there are more than maxChanges.
func listChanges(before, after gang.Workload) []string {
	record := fieldpath.Annotations.Key(gang.AnnotationInjected).String()
	var paths []string
	for _, op := range injection.Diff(nil, before.Object(), after.Object()) {
		path := fieldpath.FromPointer(op.Path)
		if path == record && before.IsInjected() || slices.Contains(paths, path) {
			continue
		}
		if len(paths) == maxChanges {
			return append(paths, "…")
		}
		paths = append(paths, path)
	}
	return paths
}

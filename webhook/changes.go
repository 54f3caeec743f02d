package webhook

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/internal/injection"
)

// maxChanges limits the paths in a message.
const maxChanges = 5

// listChanges returns the paths of the fields in which two versions of a workload differ, except for
// different records of Rollcall. The result ends with "…" if there are more than maxChanges.
func listChanges(before, after gang.Workload) []string {
	record := annotationsPath.Key(gang.AnnotationInjected).String()
	var paths []string
	for _, op := range injection.Diff(nil, before.Object(), after.Object()) {
		path := formatPointer(op.Path)
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

// indexPattern matches the index of a list element in a JSON pointer.
var indexPattern = regexp.MustCompile(`^[0-9]+$`)

// fieldNamePattern matches the name of a field, as opposed to the key of a map such as an annotation.
var fieldNamePattern = regexp.MustCompile(`^[A-Za-z]+$`)

// formatPointer returns a JSON pointer in the notation of field.Path.
func formatPointer(pointer string) string {
	var path *field.Path
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch {
		case path == nil:
			path = field.NewPath(token)
		case indexPattern.MatchString(token) || !fieldNamePattern.MatchString(token):
			path = path.Key(token)
		default:
			path = path.Child(token)
		}
	}
	return path.String()
}

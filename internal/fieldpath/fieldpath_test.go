package fieldpath_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/internal/fieldpath"
)

// TestNotations checks that each path, its steps and its JSON pointer can be converted to each other.
func TestNotations(t *testing.T) {
	for _, c := range []struct {
		path, pointer string
		steps         []string
	}{
		{path: "", pointer: "", steps: nil},
		{path: "spec", pointer: "/spec", steps: []string{"spec"}},
		{path: "spec.containers[0].image", pointer: "/spec/containers/0/image",
			steps: []string{"spec", "containers", "0", "image"}},
		{path: "metadata.annotations[example.com/a~b]", pointer: "/metadata/annotations/example.com~1a~0b",
			steps: []string{"metadata", "annotations", "example.com/a~b"}},
		{path: "metadata.labels[job-name]", pointer: "/metadata/labels/job-name",
			steps: []string{"metadata", "labels", "job-name"}},
		{path: "items[0][1].name", pointer: "/items/0/1/name", steps: []string{"items", "0", "1", "name"}},
		{path: "labels[~1]", pointer: "/labels/~01", steps: []string{"labels", "~1"}},
	} {
		if diff := cmp.Diff(c.steps, fieldpath.Split(c.path)); diff != "" && len(c.steps) > 0 {
			t.Errorf("Split(%q) (-want +got):\n%s", c.path, diff)
		}
		if got := fieldpath.Pointer(c.steps...); got != c.pointer {
			t.Errorf("Pointer(%q) = %q, want %q", c.steps, got, c.pointer)
		}
		if diff := cmp.Diff(c.steps, fieldpath.SplitPointer(c.pointer)); diff != "" {
			t.Errorf("SplitPointer(%q) (-want +got):\n%s", c.pointer, diff)
		}
		if got := fieldpath.FromPointer(c.pointer); got != c.path {
			t.Errorf("FromPointer(%q) = %q, want %q", c.pointer, got, c.path)
		}
	}
}

package migrate

import (
	"errors"
	"testing"

	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/source"
)

// TestKinds checks that the table of kinds and the readers agree.
func TestKinds(t *testing.T) {
	for group, read := range readersByGroup() {
		if source.JobKinds(group) == nil {
			t.Errorf("the table has no kind of %s", group)
		}
		for _, kind := range append(source.JobKinds(group), "Notebook") {
			supported := false
			for _, version := range []string{"v1", "v1alpha1", "v1alpha2"} {
				var recorder source.Recorder
				_, err := read(source.Object{
					Group: group, Version: version, Kind: kind, Root: recorder.Root(map[string]any{}),
					Context: source.Context{Frameworks: injectors.Builtin().Frameworks()},
				})
				supported = supported || !errors.Is(err, source.ErrUnsupported)
			}
			if want := source.IsJobKind(group, kind); supported != want {
				t.Errorf("the reader of %s supports the kind %s: %t, want %t", group, kind, supported, want)
			}
		}
	}
}

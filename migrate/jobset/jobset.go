package jobset

import (
	"fmt"

	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/origin"
)

// Group is the API group of JobSet.
const Group = "jobset.x-k8s.io"

// version is the only one that was ever released.
const version = "v1alpha2"

// Read describes a JobSet. Mistakes of the manifest are in the node's ledger; the error
// is for a kind or a version that cannot be migrated.
func Read(o origin.Object) (*blueprint.Blueprint, error) {
	if o.Kind != "JobSet" {
		return nil, fmt.Errorf("kind %s of %s: %w", o.Kind, Group, origin.ErrUnknown)
	}
	if o.Version != version {
		return nil, fmt.Errorf("version %q of JobSet is unknown; known is %s: %w", o.Version, version, origin.ErrUnknown)
	}
	s := New(o, o.Blueprint(), o.Root.Get("spec"))
	s.Choose()
	s.Finish()
	return s.Blueprint, nil
}

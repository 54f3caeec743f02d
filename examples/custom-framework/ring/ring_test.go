package ring_test

import (
	"testing"

	"example.com/custom-framework/ring"

	"rollcall.training/injectors/conformance"
)

// TestInjector runs the rules for all injectors.
func TestInjector(t *testing.T) { conformance.RunSuite(t, ring.Injector{}) }

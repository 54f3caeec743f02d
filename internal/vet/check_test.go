package vet

import (
	"maps"
	"slices"
	"testing"
)

// TestTables checks that each function belongs to a section of checks.md. Run itself reports the other checks.
func TestTables(t *testing.T) {
	functions := slices.Concat(slices.Collect(maps.Keys(objectChecks)), slices.Collect(maps.Keys(workloadChecks)),
		slices.Collect(maps.Keys(gangChecks)))
	for _, code := range functions {
		if _, ok := FindCheck(code); !ok {
			t.Errorf("checks.md does not describe %s", code)
		}
	}
	for _, c := range Checks() {
		isOfRun := c.Code == CodeUnreadable || c.Code == CodeSuppression
		if slices.Contains(functions, c.Code) == isOfRun {
			t.Errorf("%s is in a table: %v", c.Code, isOfRun)
		}
	}
}

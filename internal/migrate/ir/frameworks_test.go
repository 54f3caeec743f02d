package ir_test

import (
	"testing"

	"rollcall.training/injectors"
	"rollcall.training/internal/migrate/ir"
)

// TestSuggestedRoles checks the roles that names suggest, for all frameworks.
func TestSuggestedRoles(t *testing.T) {
	for _, tt := range []struct{ framework, name, want string }{
		{"pytorch", "leader", "master"},
		{"pytorch", "Workers", "worker"},
		{"pytorch", "parameter-server", ""},
		{"tensorflow", "master", "chief"},
		{"tensorflow", "tf-ps", "ps"},
		{"tensorflow", "eval", "evaluator"},
		{"paddle", "pserver", "master"},
		{"paddle", "trainer", "worker"},
		{"jax", "leader", "worker"},
		{"mpi", "mpimaster", "launcher"},
		{"horovod", "launcher", "launcher"},
		{"mpi", "mpiworker", "worker"},
		{"xgboost", "tracker", "master"},
		{"xgboost", "driver", ""},
	} {
		frameworks := injectors.Builtin().Frameworks()
		f, ok := frameworks.Find(tt.framework)
		if !ok {
			t.Fatalf("framework %s does not exist", tt.framework)
		}
		if got := ir.FrameworkRole(f, ir.SuggestRole(frameworks, tt.name)); got != tt.want {
			t.Errorf("the name %s suggests the role %q of %s, want %q", tt.name, got, tt.framework, tt.want)
		}
	}
}

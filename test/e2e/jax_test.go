package e2e

import (
	"fmt"
	"strings"
	"testing"

	"rollcall.training/internal/lifecycle"
	"rollcall.training/test/cluster"
)

// TestJAX calls initialize() without arguments, which needs the injected variables of a launcher:
// JAX itself reads only the address of the coordinator.
func TestJAX(t *testing.T) {
	s := requireCluster(t)
	image, err := s.LoadImage(t.Context(), cluster.JAX)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.createNamespace(t)
	s.applyExample(t, ns, "jax", image, restrictedPatches...)
	s.waitForTerminalPhase(t, ns, "jax-psum", lifecycle.Succeeded)
	logs := s.readLogsByIndex(t, ns, "jax-psum")
	if len(logs) != 2 {
		t.Errorf("%d pods, want 2", len(logs))
	}
	for index, text := range logs {
		if want := fmt.Sprintf("rank %s world_size 2 devices 2 sum 2", index); !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
}

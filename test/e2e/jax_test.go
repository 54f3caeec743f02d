package e2e

import (
	"fmt"
	"strings"
	"testing"

	"rollcall.training/gang"
	"rollcall.training/test/cluster"
)

// TestJAX calls initialize() without arguments, which is what the injected launcher
// variables are for: JAX reads only the coordinator's address by itself.
func TestJAX(t *testing.T) {
	s := here(t)
	image, err := s.LoadImage(t.Context(), cluster.JAX)
	if err != nil {
		t.Fatal(err)
	}
	ns := s.namespace(t)
	s.apply(t, ns, "jax", image, unprivileged...)
	s.phase(t, ns, "jax-psum", gang.Succeeded)
	logs := s.logs(t, ns, "jax-psum")
	if len(logs) != 2 {
		t.Errorf("%d pods for 2 ranks", len(logs))
	}
	for index, text := range logs {
		if want := fmt.Sprintf("rank %s world_size 2 devices 2 sum 2", index); !strings.Contains(text, want) {
			t.Errorf("rank %s did not print %q:\n%s", index, want, text)
		}
	}
}

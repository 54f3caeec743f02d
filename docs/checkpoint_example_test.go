package docs_test

import (
	"os/exec"
	"testing"
)

// TestCheckpointExample runs the tests of the example that saves checkpoints. They need only the standard library of
// Python.
func TestCheckpointExample(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	// -B writes no bytecode into the repository.
	command := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "checkpoint_test")
	command.Dir = "../examples/pytorch/checkpoint"
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

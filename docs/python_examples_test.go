package docs_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPythonExamples runs the tests of examples in Python. They need only the standard library.
func TestPythonExamples(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	for dir, module := range map[string]string{"pytorch/checkpoint": "checkpoint_test", "preflight": "pairs_test"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			// -B writes no bytecode into the repository.
			command := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", module)
			command.Dir = filepath.Join("../examples", dir)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// TestCheckpointPageShowsExample checks that the program on the page is the program that the end-to-end tests run.
func TestCheckpointPageShowsExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("tasks/save-checkpoints.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../examples/pytorch/checkpoint/train.py")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Use it in your program\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := pythonBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		t.Error("the section has no program")
	}
	for _, block := range blocks {
		if !strings.Contains(string(program), block[1]) {
			t.Errorf("the example does not contain\n%s", block[1])
		}
	}
}

// Package python installs what the tests of the Python package need.
//
// [Require] returns an interpreter with the client of Kubernetes and pytest. Make installs them once, from the index that
// pip uses. Tests that need them are skipped on machines without Python or without an index.
package python

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// target is the target of make that installs the packages. Its directory contains the interpreter.
const target = "bin/python/venv/installed"

// missing are texts of programs that cannot install the packages on this machine: Debian's Python without the package
// python3-venv, and pip without an index.
var missing = []string{"ensurepip is not available", "connection broken by", "No module named venv"}

// Require returns the path of an interpreter with the packages, or skips the test with the reason. root is the path of
// the repository.
func Require(t *testing.T, root string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root, target).CombinedOutput()
	if err != nil {
		for _, text := range missing {
			if strings.Contains(string(out), text) {
				t.Skipf("the Python packages cannot be installed:\n%s", out)
			}
		}
		t.Fatalf("installing the Python packages: %v\n%s", err, out)
	}
	program, err := filepath.Abs(filepath.Join(root, filepath.Dir(target), "bin", "python3"))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

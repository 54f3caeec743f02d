// Package python runs the Python package, its tests and its examples.
//
// [Command] returns a command with the client of Kubernetes, pytest and Jupyter. Make installs them once, from the
// index that pip uses. Tests that need them are skipped on machines without Python or without an index.
package python

import (
	"os"
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

// Command returns a command that runs Python in the folder of the repository with the given path, or skips the test
// with the reason. root is the path of the repository.
func Command(t *testing.T, root, folder, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
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
	program := filepath.Join(root, filepath.Dir(target), "bin", "python3")
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = filepath.Join(root, folder)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONPATH="+filepath.Join(root, "python", "src"),
		"IPYTHONDIR="+t.TempDir(), "JUPYTER_RUNTIME_DIR="+t.TempDir())
	return cmd
}

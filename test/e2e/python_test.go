package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPython runs the example for the Python client of Kubernetes against the real node.
func TestPython(t *testing.T) {
	s := requireCluster(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("Python is not installed: %v", err)
	}
	example := filepath.Join(repositoryRoot, "examples", "python")
	packages := t.TempDir()
	install := exec.CommandContext(t.Context(), "python3", "-m", "pip", "install", "--quiet",
		"--disable-pip-version-check", "--root-user-action=ignore", "--target="+packages, "--requirement=requirements.txt")
	install.Dir = example
	if out, err := install.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "No module named pip") {
			t.Skip("pip is not installed")
		}
		t.Fatalf("installing the Python client: %v\n%s", err, out)
	}
	ns := s.createNamespace(t)
	run := func(arguments ...string) (string, error) {
		arguments = append([]string{"train.py", "--namespace=" + ns}, arguments...)
		command := exec.CommandContext(t.Context(), "python3", arguments...)
		command.Dir = example
		command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "PYTHONPATH="+packages)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	t.Run("a gang succeeds, and the log of each rank is printed", func(t *testing.T) {
		out, err := run("--name=train", "--image="+s.trainingImage)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"Succeeded", "--- rank 0\n", "rank 0 of 2: the sum is 2", "--- rank 1\n", "rank 1 of 2: the sum is 2",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the output does not contain %q:\n%s", want, out)
			}
		}
	})
	t.Run("a Job that admission rejects is reported with the reason", func(t *testing.T) {
		out, err := run("--name=Train", "--image="+s.trainingImage)
		if err == nil || !strings.Contains(out, "creating the Job Train") || !strings.Contains(out, "metadata.name") {
			t.Errorf("the error is %v, the output is\n%s", err, out)
		}
	})
}

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall.training/test/python"
)

// TestPython runs the examples of the Python package against the real node.
func TestPython(t *testing.T) {
	s := requireCluster(t)
	ns := s.createNamespace(t)
	example := filepath.Join("examples", "python")
	run := func(args ...string) (string, error) {
		out, err := python.Command(t, repositoryRoot, example, s.Kubeconfig(), args...).CombinedOutput()
		return string(out), err
	}
	t.Run("a function succeeds as a gang, and the log of each rank is printed", func(t *testing.T) {
		out, err := run("train.py", "--namespace="+ns, "--name=train", "--image="+s.trainingImage)
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
	t.Run("a Job that is rejected is reported with the reason", func(t *testing.T) {
		out, err := run("train.py", "--namespace="+ns, "--name=Train", "--image="+s.trainingImage)
		if err == nil || !strings.Contains(out, "Train was rejected") || !strings.Contains(out, "metadata.name") {
			t.Errorf("the error is %v, the output is\n%s", err, out)
		}
	})
	t.Run("the notebook prints the logs of two pods with two processes each", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(repositoryRoot, example, "train.ipynb"))
		if err != nil {
			t.Fatal(err)
		}
		const image = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"
		pods := `pods=2, namespace=\"` + ns + `\"`
		notebook := strings.NewReplacer(image, s.trainingImage, "pods=2", pods).Replace(string(text))
		file := filepath.Join(t.TempDir(), "train.ipynb")
		if err := os.WriteFile(file, []byte(notebook), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run("-c", "from nbclient.cli import main; main()", "--timeout=600", "--inplace", file); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		executed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"rank 0 of 4: the sum is 4", "rank 1 of 4: the sum is 4", // pod 0
			"rank 2 of 4: the sum is 4", "rank 3 of 4: the sum is 4", "text/html",
		} {
			if !strings.Contains(string(executed), want) {
				t.Errorf("the notebook does not contain %q:\n%s", want, executed)
			}
		}
	})
}

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall.training/test/python"
)

// testPython runs the tests of the Python package against the API server, the webhook and the controller.
func testPython(t *testing.T, m *manager, ns string) {
	program := python.Require(t, filepath.Join("..", ".."))
	cmd := exec.CommandContext(t.Context(), program, "-m", "pytest", "-rs", "--durations=3")
	cmd.Dir = filepath.Join("..", "..", "python")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.Cluster.Kubeconfig(), "ROLLCALL_TEST_NAMESPACE="+ns)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

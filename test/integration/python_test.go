package integration

import (
	"path/filepath"
	"testing"

	"rollcall.training/test/python"
)

// testPython runs the tests of the Python package against the API server, the webhook and the controller.
func testPython(t *testing.T, m *manager, ns string) {
	root := filepath.Join("..", "..")
	cmd := python.Command(t, root, "python", m.Cluster.Kubeconfig(), "-m", "pytest", "-rs", "--durations=3")
	cmd.Env = append(cmd.Env, "ROLLCALL_TEST_NAMESPACE="+ns)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

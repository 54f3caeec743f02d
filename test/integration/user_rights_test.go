package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// rolePattern matches the Role of the page about the command.
var rolePattern = regexp.MustCompile("(?s)```yaml\n(apiVersion: rbac.*?)```")

// testUserRights verifies that the documented Role is sufficient for rollcall status, and that a user
// without it gets an error that names the missing right.
func testUserRights(t *testing.T, m *manager, ns string) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tasks", "install-the-command.md"))
	if err != nil {
		t.Fatal(err)
	}
	role := rolePattern.FindSubmatch(page)
	if role == nil {
		t.Fatal("the page contains no Role")
	}
	file := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(file, role[1], 0o600); err != nil {
		t.Fatal(err)
	}
	m.createJob(t, ns, newJob("train", 2))
	program, kubeconfig := buildCommand(t), writeKubeconfigAs(t, m.Cluster.Kubeconfig(), "researcher")
	runStatus := func() (string, error) {
		out, err := exec.CommandContext(
			t.Context(), program, "status", "train", "-n", ns, "--kubeconfig", kubeconfig).CombinedOutput()
		return string(out), err
	}
	if out, err := runStatus(); err == nil || !strings.Contains(out, "cannot list resource") {
		t.Errorf("without rights: error %v, want one that names the right\n%s", err, out)
	}
	for _, args := range [][]string{
		{"apply", "-f", file},
		{"create", "rolebinding", "researcher", "--role=rollcall-user", "--user=researcher"},
	} {
		if out, err := m.Cluster.Kubectl(t.Context(), append(args, "--namespace", ns)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if out, err := runStatus(); err != nil || !strings.Contains(out, "train  pytorch") {
		t.Errorf("with the Role: error %v, want the gang\n%s", err, out)
	}
	for _, right := range []string{
		"watch jobs", "watch statefulsets", "watch pods", "list events", "get pods --subresource=log",
	} {
		args := append([]string{"auth", "can-i"}, strings.Fields(right)...)
		out, err := m.Cluster.Kubectl(t.Context(), append(args, "--as", "researcher", "--namespace", ns)...)
		if err != nil {
			t.Errorf("%s: %v\n%s", right, err, out)
		}
	}
}

// writeKubeconfigAs writes a copy of a kubeconfig file that impersonates a user, and returns its path.
func writeKubeconfigAs(t *testing.T, path, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

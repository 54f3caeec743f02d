package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall.training/test/cluster"
	"rollcall.training/test/pages"
)

// TestDemo follows the demo on the cluster of the tests, with helm in the PATH. Its Events differ between two runs, so
// the page ends before.
func TestDemo(t *testing.T) {
	s := requireCluster(t)
	helm, err := cluster.FindHelm(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(helm, filepath.Join(bin, "helm")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("TRAINING_IMAGE", s.trainingImage)
	pages.FollowMake(t, repositoryRoot, "docs/tutorials/demo.md", s.Cluster, s.createNamespace(t), "demo",
		"== Applying examples/pytorch", "AGE ")
}

// TestPages follows pages: it saves their files and runs their commands with output. Those for administrators verify
// the installation of the tests.
func TestPages(t *testing.T) {
	s := requireCluster(t)
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skipf("jq is not installed: %v", err)
	}
	for page, commands := range map[string]int{
		"README.md": 5, "docs/tutorials/first-gang.md": 5, "docs/tasks/install.md": 3, "docs/tasks/upgrade.md": 3,
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			if n := pages.Follow(t, repositoryRoot, page, s.Cluster, s.createNamespace(t), s.trainingImage); n < commands {
				t.Errorf("the page has only %d commands, want %d", n, commands)
			}
		})
	}
}

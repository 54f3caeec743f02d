package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall.training/test/pages"
)

// TestPages follows the pages for users of a cluster with Rollcall: it saves their files and runs their commands.
func TestPages(t *testing.T) {
	s := requireCluster(t)
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skipf("jq is not installed: %v", err)
	}
	for _, page := range []string{"README.md", "docs/tutorials/first-gang.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			if n := pages.Follow(t, repositoryRoot, page, s.Cluster, s.createNamespace(t), s.trainingImage); n < 5 {
				t.Errorf("the page has only %d commands", n)
			}
		})
	}
}

package builds

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExtract checks that the files of a commit are complete and stay in the cache, and that a
// repository without the commit is reported.
func TestExtract(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	repository := t.TempDir()
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{
			"-c", "user.name=test", "-c", "user.email=test@example.com",
		}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repository, "file.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git(repository, "add", ".")
		git(repository, "commit", "--quiet", "--message", text)
	}
	git(repository, "init", "--quiet")
	write("first")
	first := git(repository, "rev-parse", "HEAD")
	write("second")

	for range 2 { // the second call finds the folder
		dir, err := extract(t.Context(), repository, first[:7])
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "file.txt")); err != nil || string(text) != "first" {
			t.Errorf("the file contains %q, %v", text, err)
		}
	}
	if status := git(repository, "status", "--porcelain"); status != "" {
		t.Errorf("the repository was changed: %s", status)
	}

	shallow := filepath.Join(t.TempDir(), "clone")
	git(repository, "clone", "--quiet", "--depth=1", "file://"+repository, shallow)
	_, err := extract(t.Context(), shallow, first)
	if !errors.Is(err, ErrNoHistory) || !strings.Contains(err.Error(), "shallow") {
		t.Errorf("a shallow clone returned %v", err)
	}
	if _, err := extract(t.Context(), t.TempDir(), "HEAD"); !errors.Is(err, ErrNoHistory) {
		t.Errorf("a folder without a repository returned %v", err)
	}
	if _, err := extract(t.Context(), repository, "no-such-tag"); err == nil || errors.Is(err, ErrNoHistory) {
		t.Errorf("a commit that does not exist returned %v", err)
	}
}

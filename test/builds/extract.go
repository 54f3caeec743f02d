package builds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Previous is the build before this one, from which users upgrade. It is a commit, and the tag of the
// last release as soon as there is one.
const Previous = "bff5c8a"

// ErrNoHistory means that the source of this program has no git history, or a part of it.
var ErrNoHistory = errors.New("the git history is not available")

// Require returns the folder with the source of a build. It skips the test if there is no git history.
func Require(t testing.TB, revision string) string {
	t.Helper()
	dir, err := Extract(t.Context(), revision)
	if errors.Is(err, ErrNoHistory) {
		t.Skipf("the build %s cannot be made: %v", revision, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Extract copies the files of a commit or tag into a folder of the user's cache, and returns the
// folder. Later calls for the same commit return the same folder. The error wraps ErrNoHistory if the
// repository does not contain the commit because it has no complete history.
func Extract(ctx context.Context, revision string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	return extract(ctx, filepath.Dir(file), revision)
}

func extract(ctx context.Context, repository, revision string) (string, error) {
	commit, err := findCommit(ctx, repository, revision)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
	}
	parent := filepath.Join(cache, "rollcall", "builds")
	dir := filepath.Join(parent, commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache directory: %w", err)
	}
	// Another process can extract the same commit, so that only the complete folder gets the name.
	draft, err := os.MkdirTemp(parent, commit+".new-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for the build %s: %w", revision, err)
	}
	defer func() { _ = os.RemoveAll(draft) }()
	if err := checkOut(ctx, repository, commit, draft); err != nil {
		return "", fmt.Errorf("extracting the build %s: %w", revision, err)
	}
	if err := os.Rename(filepath.Join(draft, "source"), dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another process was faster
		}
		return "", fmt.Errorf("extracting the build %s: %w", revision, err)
	}
	return dir, nil
}

// findCommit returns the hash of a commit or tag.
func findCommit(ctx context.Context, repository, revision string) (string, error) {
	commit, err := runGit(ctx, repository, nil, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err == nil {
		return commit, nil
	}
	shallow, gitErr := runGit(ctx, repository, nil, "rev-parse", "--is-shallow-repository")
	switch {
	case gitErr != nil:
		return "", fmt.Errorf("%w: %s is not in a git repository", ErrNoHistory, repository)
	case shallow == "true":
		return "", fmt.Errorf("%w: the clone is shallow; run git fetch --unshallow --tags", ErrNoHistory)
	}
	return "", fmt.Errorf("finding the commit %s: %w", revision, err)
}

// checkOut writes the files of a commit below the folder "source" of dir. An index of its own leaves the
// index of the repository alone.
func checkOut(ctx context.Context, repository, commit, dir string) error {
	root, err := runGit(ctx, repository, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := runGit(ctx, root, index, "read-tree", commit); err != nil {
		return err
	}
	_, err = runGit(ctx, root, index, "checkout-index", "--all", "--prefix="+filepath.Join(dir, "source")+"/")
	return err
}

func runGit(ctx context.Context, dir string, environment []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

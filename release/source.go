package release

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Source is the commit of a checkout that a release is built from.
type Source struct {
	// Dir is the root of the repository.
	Dir string
	// Version is the version of the release with the prefix v, such as v0.2.0.
	Version string
	// Commit is the hash of the commit.
	Commit string
	// Time is the time of the commit. Every file of the release has this time.
	Time time.Time
}

// ErrUncommittedChanges is the error of a checkout whose files differ from its commit.
var ErrUncommittedChanges = errors.New(
	"the checkout has uncommitted changes: commit them, or allow them with --allow-uncommitted")

// ReadSource reads the commit of the checkout that contains dir. It returns [ErrUncommittedChanges] if
// files differ from the commit and allowUncommitted is false. Untracked files count, because they can be
// compiled or packaged. The commit of such a source ends with "-dirty".
func ReadSource(ctx context.Context, dir, version string, allowUncommitted bool) (Source, error) {
	root, err := runGit(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return Source{}, err
	}
	commit, err := runGit(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return Source{}, err
	}
	changes, err := runGit(ctx, root, "status", "--porcelain")
	if err != nil {
		return Source{}, err
	}
	if changes != "" {
		if !allowUncommitted {
			return Source{}, ErrUncommittedChanges
		}
		commit += "-dirty"
	}
	text, err := runGit(ctx, root, "log", "-1", "--format=%ct")
	if err != nil {
		return Source{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Source{}, fmt.Errorf("parsing the time of the commit: %w", err)
	}
	return Source{Dir: filepath.Clean(root), Version: version, Commit: commit, Time: time.Unix(seconds, 0).UTC()}, nil
}

// DescribeVersion returns a version for a checkout without a release: v0.0.0 with the first characters
// of the commit.
func DescribeVersion(ctx context.Context, dir string) (string, error) {
	commit, err := runGit(ctx, dir, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	return "v0.0.0-" + commit, nil
}

func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", strings.Join(args, " "), addStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// addStderr adds what a program wrote to its standard error.
func addStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Recipe is an image of Debian packages and Python packages. It uses the apt mirror and the pip
// index of this machine. It is built once, because the tag of the image is a hash of the recipe.
type Recipe struct {
	// Name is the name of the image below "rollcall.training/".
	Name string
	// Packages are Debian packages. Their names may differ between suites.
	Packages []string
	// Suites are Debian releases in the order of preference, for example "trixie". The image uses
	// the first suite that the mirror has, or the suite of this machine if the mirror has none of
	// them.
	Suites []string
	// Wheels are Python packages with versions in the format of pip, for example "lightgbm==4.7.0".
	// They are installed from wheels with their dependencies, for the Python in Packages.
	Wheels []string `json:",omitempty"`
	// Sources are Python packages with versions that the Python of the image installs: packages
	// without wheels, and packages with programs and libraries outside of their modules, which
	// Wheels cannot install. Packages and Wheels must contain their dependencies.
	Sources []string `json:",omitempty"`
	// SourceEnv are environment variables for the build of Sources, as NAME=value.
	SourceEnv []string `json:",omitempty"`
	// SourcePatches are shell commands. They run in the directory that contains the unpacked
	// Sources, for example "horovod-0.28.1".
	SourcePatches []string `json:",omitempty"`
	// BuildPackages are Debian packages that are installed only during the installation of Sources.
	BuildPackages []string `json:",omitempty"`
	// Setup are shell commands. They run in the file system of the image after all packages are
	// installed.
	Setup []string
	// Env are environment variables of every container, as NAME=value.
	Env []string
	// Entrypoint is the program of every container. Without it, every container must set a command.
	Entrypoint []string
}

// Hash returns a short hash of the recipe.
func (r Recipe) Hash() (string, error) {
	data, err := json.Marshal(struct {
		Format int
		Arch   string
		Recipe Recipe
	}{imageFormatVersion, goarch, r})
	if err != nil {
		return "", fmt.Errorf("encoding the recipe %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(data)
	return formatShortHash(sum[:]), nil
}

// Reference returns the name of the image. Its tag is the hash of the recipe.
func (r Recipe) Reference() (string, error) {
	image, err := r.Image()
	return image.Ref, err
}

// Image returns the name and path of the image without building it.
func (r Recipe) Image() (Image, error) {
	hash, err := r.Hash()
	if err != nil {
		return Image{}, err
	}
	dir, err := ensureCacheDir("images")
	if err != nil {
		return Image{}, err
	}
	return Image{Ref: imageRepository + r.Name + ":" + hash, Path: filepath.Join(dir, r.Name+"-"+hash+".tar")}, nil
}

// Build builds the image unless it exists. It takes a minute or more and downloads several hundred
// MB of packages.
func (r Recipe) Build(ctx context.Context, w io.Writer) (Image, error) {
	image, err := r.Image()
	if err != nil || isFile(image.Path) {
		return image, err
	}
	p := newProgress(w)
	programs := recipePrograms
	if len(r.Wheels)+len(r.Sources) > 0 {
		programs = slices.Concat(programs, wheelPrograms)
	}
	if err := installMissingPrograms(ctx, p, programs); err != nil {
		return Image{}, err
	}
	unlock, err := acquireLock(strings.TrimSuffix(image.Path, ".tar") + ".lock")
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if isFile(image.Path) {
		return image, nil
	}
	own, err := detectAptSource()
	if err != nil {
		return Image{}, fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	suite := own.suite
	for _, wanted := range r.Suites {
		if own.hasSuite(ctx, wanted) {
			suite = wanted
			break
		}
	}
	root := strings.TrimSuffix(image.Path, ".tar") + ".root"
	defer func() { _ = os.Remove(root) }()
	what := fmt.Sprintf("building the image %s from Debian %s (a minute or more)", image.Ref, suite)
	err = p.runStep(what, func() error { return r.buildRootFS(ctx, suite, own.mirror, root) })
	if err != nil {
		return Image{}, err
	}
	opener := func() (io.ReadCloser, error) { return os.Open(root) }
	config := v1.Config{
		Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, r.Env...),
		Entrypoint: r.Entrypoint, WorkingDir: "/",
	}
	return image, p.runStep("writing the image "+image.Ref, func() error { return writeImage(image, opener, config) })
}

// buildRootFS writes the root file system to a tar file.
func (r Recipe) buildRootFS(ctx context.Context, suite, mirror, path string) error {
	args := []string{
		// "essential" is the smallest set of packages in which every package can be installed. It
		// has no apt and no init.
		"--variant=essential", "--format=tar", "--quiet",
		"--include=" + strings.Join(r.Packages, ","),
		`--aptopt=Apt::Install-Recommends "false"`,
	}
	// Tests need no documentation and no translations.
	for _, unread := range []string{"doc", "man", "info", "locale", "help", "gtk-doc", "lintian"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+unread+"/*")
	}
	if len(r.Wheels) > 0 {
		args = append(args, "--customize-hook="+formatWheelHook(r.Wheels))
	}
	if len(r.Sources) > 0 {
		args = append(args, "--customize-hook="+r.formatSourceHook())
	}
	for _, command := range r.Setup {
		args = append(args, `--customize-hook=chroot "$1" sh -ec `+quoteForShell(command))
	}
	args = append(args, suite, path, mirror)
	cmd := exec.CommandContext(ctx, findProgram("mmdebstrap"), args...)
	// This is the time of every file, so that the image depends only on its packages.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// On an interrupt, mmdebstrap removes its directory and mounts.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = terminationGracePeriod
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mmdebstrap %s: %w\n%s", suite, err, output.String()), removeIfExists(path))
	}
	return nil
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}

// quoteForShell quotes a text for a POSIX shell.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// hasSuite reports whether the mirror has a suite.
func (s hostAptSource) hasSuite(ctx context.Context, suite string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(
		ctx, http.MethodHead, strings.TrimRight(s.mirror, "/")+"/dists/"+suite+"/InRelease", nil,
	)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

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

// Recipe is an image made of Debian packages, from the mirror that this machine itself uses, and of Python packages,
// from the index that its pip uses. It is made once: the
// image's tag is a hash of the recipe.
type Recipe struct {
	// Name is the image's, below "rollcall.training/".
	Name string
	// Packages are Debian's. A package's name may differ between suites: see Suites.
	Packages []string
	// Suites are Debian releases in the order of preference, such as "trixie"; the first that the mirror offers is taken,
	// and the machine's own when it offers none.
	Suites []string
	// Wheels are Python packages with their versions, as pip wants them: "lightgbm==4.7.0". They are installed with what
	// they depend on, and never built, for the Python among Packages.
	Wheels []string `json:",omitempty"`
	// Sources are Python packages with their versions that the image's own Python installs: those that come as sources
	// only, and those that bring programs and libraries beside their modules, which Wheels cannot place. What they depend
	// on is left to Packages and Wheels.
	Sources []string `json:",omitempty"`
	// SourceEnv are variables for the building of Sources, as NAME=value.
	SourceEnv []string `json:",omitempty"`
	// SourcePatches are shell commands, run in the folder that has a folder of each of Sources, such as "horovod-0.28.1".
	SourcePatches []string `json:",omitempty"`
	// BuildPackages are Debian packages that are there only while Sources are installed.
	BuildPackages []string `json:",omitempty"`
	// Setup are shell commands, run in the image's file system after all packages are installed.
	Setup []string
	// Env are variables of every container, as NAME=value.
	Env []string
	// Entrypoint is the program that every container runs; none by default.
	Entrypoint []string
}

// Hash returns a short hash of all that the recipe says.
func (r Recipe) Hash() (string, error) {
	data, err := json.Marshal(struct {
		Format int
		Arch   string
		Recipe Recipe
	}{imageFormat, goarch, r})
	if err != nil {
		return "", fmt.Errorf("encoding the recipe %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(data)
	return shortHash(sum[:]), nil
}

// Reference returns the name of the image, whose tag is the recipe's hash.
func (r Recipe) Reference() (string, error) {
	image, err := r.Image()
	return image.Ref, err
}

// Image returns the image that Build makes, without making it.
func (r Recipe) Image() (Image, error) {
	hash, err := r.Hash()
	if err != nil {
		return Image{}, err
	}
	dir, err := cacheDir("images")
	if err != nil {
		return Image{}, err
	}
	return Image{Ref: imageRepository + r.Name + ":" + hash, Path: filepath.Join(dir, r.Name+"-"+hash+".tar")}, nil
}

// Build makes the image, unless it is there. That takes a minute or more, and several hundred MB of packages.
func (r Recipe) Build(ctx context.Context, w io.Writer) (Image, error) {
	image, err := r.Image()
	if err != nil || isFile(image.Path) {
		return image, err
	}
	p := &progress{w: w}
	programs := recipePrograms
	if len(r.Wheels)+len(r.Sources) > 0 {
		programs = slices.Concat(programs, wheelPrograms)
	}
	if err := requirePrograms(ctx, p, programs); err != nil {
		return Image{}, err
	}
	unlock, err := lock(strings.TrimSuffix(image.Path, ".tar") + ".lock")
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if isFile(image.Path) {
		return image, nil
	}
	own, err := ownSource()
	if err != nil {
		return Image{}, fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	suite := own.suite
	for _, wanted := range r.Suites {
		if own.offers(ctx, wanted) {
			suite = wanted
			break
		}
	}
	root := strings.TrimSuffix(image.Path, ".tar") + ".root"
	defer func() { _ = os.Remove(root) }()
	what := fmt.Sprintf("making the image %s from Debian %s (a minute or more)", image.Ref, suite)
	err = p.do(what, func() error { return r.bootstrap(ctx, suite, own.mirror, root) })
	if err != nil {
		return Image{}, err
	}
	opener := func() (io.ReadCloser, error) { return os.Open(root) }
	config := v1.Config{
		Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, r.Env...),
		Entrypoint: r.Entrypoint, WorkingDir: "/",
	}
	return image, p.do("wrapping the image "+image.Ref, func() error { return writeImage(image, opener, config) })
}

// bootstrap writes the root file system to a tar file.
func (r Recipe) bootstrap(ctx context.Context, suite, mirror, path string) error {
	args := []string{
		// "essential" is the smallest set in which every package can be installed: no apt, no init.
		"--variant=essential", "--format=tar", "--quiet",
		"--include=" + strings.Join(r.Packages, ","),
		`--aptopt=Apt::Install-Recommends "false"`,
	}
	// Nobody reads manuals or chooses a language in a test.
	for _, unread := range []string{"doc", "man", "info", "locale", "help", "gtk-doc", "lintian"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+unread+"/*")
	}
	if len(r.Wheels) > 0 {
		args = append(args, "--customize-hook="+wheelHook(r.Wheels))
	}
	if len(r.Sources) > 0 {
		args = append(args, "--customize-hook="+r.sourceHook())
	}
	for _, command := range r.Setup {
		args = append(args, `--customize-hook=chroot "$1" sh -ec `+shellQuote(command))
	}
	args = append(args, suite, path, mirror)
	cmd := exec.CommandContext(ctx, lookPath("mmdebstrap"), args...)
	// The time of every file: so the image depends on the packages alone.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// Asked to end, it takes away its folder and mounts.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("mmdebstrap %s: %w\n%s", suite, err, output.String()), removeIfThere(path))
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !missing(err) {
		return err
	}
	return nil
}

// shellQuote quotes a text for a POSIX shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// offers tells whether the mirror has a suite.
func (s aptSource) offers(ctx context.Context, suite string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimRight(s.mirror, "/")+"/dists/"+suite+"/InRelease", nil)
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

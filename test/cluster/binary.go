package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// goarch is the architecture of this machine and of all images.
const goarch = runtime.GOARCH

// pauseImage is the image of the first container of every pod. Increase its tag when the program
// changes.
const pauseImage = imageRepository + "pause:1"

// Binary is an image with only static Go programs, which run as an unprivileged user. The same
// source results in the same image.
type Binary struct {
	// Ref is the full name of the image with tag.
	Ref string
	// Dir is a directory in the module of the program.
	Dir string
	// Package is the package of the program as in go build, for example "./cmd/manager". Its last
	// element is the name of the program in the root directory of the image, and the entrypoint.
	Package string
	// MorePackages are further programs in the same directory of the image.
	MorePackages []string
	// LinkerFlags are -ldflags in addition to "-s -w".
	LinkerFlags string
}

// maxCachedImages is the number of kept images of earlier builds of a program. Other processes may
// still be loading them.
const maxCachedImages = 5

// nonRootUser is the conventional user of images without a user database. It is numeric, so that
// Kubernetes can verify that it is not root.
const nonRootUser = "65532:65532"

// Reference returns Ref.
func (b Binary) Reference() (string, error) { return b.Ref, nil }

// Build builds the program and the image. It is fast if nothing has changed.
func (b Binary) Build(ctx context.Context, w io.Writer) (Image, error) {
	dir, err := ensureCacheDir("images")
	if err != nil {
		return Image{}, err
	}
	program := path.Base(b.Package)
	unlock, err := acquireLock(filepath.Join(dir, "binary-"+program+".lock"))
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	p := newProgress(w)
	programs, content := map[string][]byte{}, []byte{}
	for _, pkg := range append([]string{b.Package}, b.MorePackages...) {
		built := filepath.Join(dir, "binary-"+path.Base(pkg))
		build := goBuild{
			dir: b.Dir, pkg: pkg, path: built,
			arguments: []string{"-ldflags=" + strings.TrimSpace("-s -w "+b.LinkerFlags)},
		}
		if err := build.run(ctx, p, "building "+pkg+" for the image "+b.Ref); err != nil {
			return Image{}, err
		}
		text, err := os.ReadFile(built)
		if err != nil {
			return Image{}, fmt.Errorf("reading the built program: %w", err)
		}
		programs[path.Base(pkg)], content = text, append(content, text...)
	}
	hash := sha256.Sum256(append(fmt.Appendf(nil, "%d %s\n", imageFormatVersion, b.Ref), content...))
	image := Image{Ref: b.Ref, Path: filepath.Join(dir, program+"-"+formatShortHash(hash[:])+".tar")}
	if isFile(image.Path) {
		return image, nil
	}
	layer, err := buildProgramLayer(programs)
	if err != nil {
		return Image{}, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }
	config := v1.Config{Entrypoint: []string{"/" + program}, User: nonRootUser, WorkingDir: "/"}
	if err := writeImage(image, opener, config); err != nil {
		return Image{}, err
	}
	return image, keepNewest(filepath.Join(dir, program+"-*.tar"), maxCachedImages)
}

// buildProgramLayer returns a tar with programs in the root directory, without times and owners.
func buildProgramLayer(programs map[string][]byte) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		content := programs[program]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archiving the program %s: %w", program, err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("archiving the program %s: %w", program, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archiving the programs: %w", err)
	}
	return layer.Bytes(), nil
}

func newPauseBinary() (Binary, error) {
	dir, err := findSourceDir()
	return Binary{Ref: pauseImage, Dir: dir, Package: "./pause"}, err
}

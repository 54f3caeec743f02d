package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// goarch is the architecture of this machine, and so of all images.
const goarch = runtime.GOARCH

// pauseImage is what every pod's first container runs. Its tag counts changes of the program.
const pauseImage = imageRepository + "pause:1"

// Binary is an image of one static Go program and nothing else, which runs as a user without rights. The same source
// makes the same image.
type Binary struct {
	// Ref is the image's full name with tag.
	Ref string
	// Dir is a folder of the module that has the program.
	Dir string
	// Package is the program's, as the go command wants it, such as "./cmd/manager". Its last element is the name of the
	// program in the image's root folder, where it is the entrypoint.
	Package string
	// LinkerFlags go to -ldflags, besides "-s -w".
	LinkerFlags string
}

// keptBuilds is how many images of former builds of a program are kept: some, because others may just be loading theirs.
const keptBuilds = 5

// nobody is the usual user of images without a user database. Its numeric form lets Kubernetes see that it is not root.
const nobody = "65532:65532"

// Reference returns Ref.
func (b Binary) Reference() (string, error) { return b.Ref, nil }

// Build builds the program, which is quick when nothing has changed, and wraps it.
func (b Binary) Build(ctx context.Context, w io.Writer) (Image, error) {
	dir, err := cacheDir("images")
	if err != nil {
		return Image{}, err
	}
	program := path.Base(b.Package)
	unlock, err := lock(filepath.Join(dir, "binary-"+program+".lock"))
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	built := filepath.Join(dir, "binary-"+program)
	p := &progress{w: w}
	err = p.do("building "+b.Package+" for the image "+b.Ref, func() error {
		return goBuild(ctx, b.Dir, b.Package, built, "-ldflags="+strings.TrimSpace("-s -w "+b.LinkerFlags))
	})
	if err != nil {
		return Image{}, err
	}
	content, err := os.ReadFile(built)
	if err != nil {
		return Image{}, fmt.Errorf("reading the built program: %w", err)
	}
	hash := sha256.Sum256(append(fmt.Appendf(nil, "%d %s\n", imageFormat, b.Ref), content...))
	image := Image{Ref: b.Ref, Path: filepath.Join(dir, program+"-"+shortHash(hash[:])+".tar")}
	if isFile(image.Path) {
		return image, nil
	}
	layer, err := programLayer(program, content)
	if err != nil {
		return Image{}, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }
	config := v1.Config{Entrypoint: []string{"/" + program}, User: nobody, WorkingDir: "/"}
	if err := writeImage(image, opener, config); err != nil {
		return Image{}, err
	}
	return image, keepNewest(filepath.Join(dir, program+"-*.tar"), keptBuilds)
}

// programLayer returns a file system with one program in its root folder, without times or owners.
func programLayer(program string, content []byte) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o755, Size: int64(len(content))}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("wrapping the program %s: %w", program, err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("wrapping the program %s: %w", program, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("wrapping the program %s: %w", program, err)
	}
	return layer.Bytes(), nil
}

func pauseBinary() (Binary, error) {
	dir, err := sourceDir()
	return Binary{Ref: pauseImage, Dir: dir, Package: "./pause"}, err
}

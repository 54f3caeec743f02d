package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Overlay is an image with some more files in it, as a Dockerfile of FROM and COPY makes it.
type Overlay struct {
	// Name is the image's, below "rollcall.training/".
	Name string
	// Base is the image below.
	Base ImageSource
	// Files are the contents of files by their absolute paths.
	Files map[string]string
}

// Reference returns the image's name, whose tag is a hash of what it is made of.
func (o Overlay) Reference() (string, error) {
	image, err := o.image()
	return image.Ref, err
}

func (o Overlay) image() (Image, error) {
	base, err := o.Base.Reference()
	if err != nil {
		return Image{}, err
	}
	text, err := json.Marshal([]any{base, o.Files})
	if err != nil {
		return Image{}, fmt.Errorf("naming the image %s: %w", o.Name, err)
	}
	sum := sha256.Sum256(text)
	dir, err := cacheDir("images")
	if err != nil {
		return Image{}, err
	}
	hash := shortHash(sum[:])
	return Image{Ref: imageRepository + o.Name + ":" + hash, Path: filepath.Join(dir, o.Name+"-"+hash+".tar")}, nil
}

// Build makes the image, and the one below if need be.
func (o Overlay) Build(ctx context.Context, w io.Writer) (Image, error) {
	image, err := o.image()
	if err != nil || isFile(image.Path) {
		return image, err
	}
	below, err := o.Base.Build(ctx, w)
	if err != nil {
		return Image{}, err
	}
	tag, err := name.NewTag(below.Ref, name.StrictValidation)
	if err != nil {
		return Image{}, fmt.Errorf("reading the image %s: %w", below.Ref, err)
	}
	base, err := tarball.ImageFromPath(below.Path, &tag)
	if err != nil {
		return Image{}, fmt.Errorf("reading the image %s: %w", below.Ref, err)
	}
	content, err := o.layer()
	if err != nil {
		return Image{}, fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	layer, err := newPlainLayer(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return Image{}, fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	made, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return Image{}, fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	return image, saveImage(image, made)
}

// layer is a tar of the files, with the folders that they need.
func (o Overlay) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, path := range slices.Sorted(maps.Keys(o.Files)) {
		text := o.Files[path]
		header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

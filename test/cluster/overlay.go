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

// Overlay is an image with additional files, like the result of a Dockerfile with FROM and COPY.
type Overlay struct {
	// Name is the name of the image below "rollcall.training/".
	Name string
	// Base is the base image.
	Base ImageSource
	// Files maps absolute paths to the contents of the files.
	Files map[string]string
}

// Reference returns the name of the image. Its tag is a hash of the base image and the files.
func (o Overlay) Reference() (string, error) {
	image, err := o.resolveImage()
	return image.Ref, err
}

func (o Overlay) resolveImage() (Image, error) {
	base, err := o.Base.Reference()
	if err != nil {
		return Image{}, err
	}
	text, err := json.Marshal([]any{base, o.Files})
	if err != nil {
		return Image{}, fmt.Errorf("naming the image %s: %w", o.Name, err)
	}
	sum := sha256.Sum256(text)
	dir, err := ensureCacheDir("images")
	if err != nil {
		return Image{}, err
	}
	hash := formatShortHash(sum[:])
	return Image{Ref: imageRepository + o.Name + ":" + hash, Path: filepath.Join(dir, o.Name+"-"+hash+".tar")}, nil
}

// Build builds the image, and the base image if necessary.
func (o Overlay) Build(ctx context.Context, w io.Writer) (Image, error) {
	image, err := o.resolveImage()
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
	content, err := o.buildLayer()
	if err != nil {
		return Image{}, fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	layer, err := newUncompressedLayer(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	if err != nil {
		return Image{}, fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	made, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return Image{}, fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	return image, saveImage(image, made)
}

// buildLayer returns a tar of the files and their directories.
func (o Overlay) buildLayer() ([]byte, error) {
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

package cluster

import (
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// uncompressedLayer is a layer without compression. The library compresses each layer, twice. These
// images are only copied between directories of this machine, and the largest has a gigabyte.
type uncompressedLayer struct {
	open tarball.Opener
	hash v1.Hash
	size int64
}

func newUncompressedLayer(open tarball.Opener) (v1.Layer, error) {
	content, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening a layer: %w", err)
	}
	defer func() { _ = content.Close() }()
	hash, size, err := v1.SHA256(content)
	if err != nil {
		return nil, fmt.Errorf("hashing a layer: %w", err)
	}
	return &uncompressedLayer{open: open, hash: hash, size: size}, nil
}

func (l *uncompressedLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *uncompressedLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *uncompressedLayer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l *uncompressedLayer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l *uncompressedLayer) Size() (int64, error)                 { return l.size, nil }
func (l *uncompressedLayer) MediaType() (types.MediaType, error) {
	return types.DockerUncompressedLayer, nil
}

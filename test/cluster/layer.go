package cluster

import (
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// plainLayer is a layer that is not compressed. The library compresses whatever it is given, twice; but our images only
// go from one folder of this machine to another, and the largest are a gigabyte.
type plainLayer struct {
	open tarball.Opener
	hash v1.Hash
	size int64
}

func newPlainLayer(open tarball.Opener) (v1.Layer, error) {
	content, err := open()
	if err != nil {
		return nil, fmt.Errorf("opening a layer: %w", err)
	}
	defer func() { _ = content.Close() }()
	hash, size, err := v1.SHA256(content)
	if err != nil {
		return nil, fmt.Errorf("hashing a layer: %w", err)
	}
	return &plainLayer{open: open, hash: hash, size: size}, nil
}

func (l *plainLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *plainLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *plainLayer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l *plainLayer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l *plainLayer) Size() (int64, error)                 { return l.size, nil }
func (l *plainLayer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

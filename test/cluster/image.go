package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageRepository begins the names of our images. There is no such registry: an image is loaded, or it is not there.
const imageRepository = "rollcall.training/"

// imageFormat is part of each hash: raise it when the same recipe or program shall give another image.
const imageFormat = 1

// Image is a container image in a file, as "docker save" writes it.
type Image struct {
	// Ref is its full name with tag, such as "rollcall.training/torch:1". A pod that names it, with the pull policy
	// IfNotPresent, which is the default for every tag but "latest", finds it without a registry.
	Ref string
	// Path is the file's.
	Path string
}

// ImageSource is what an image can be had from: an Image, a Binary, a Recipe or an Overlay.
type ImageSource interface {
	// Reference returns the image's full name with tag, without making the image.
	Reference() (string, error)
	// Build returns the image, made if need be. progress receives a line for each step that takes long.
	Build(ctx context.Context, progress io.Writer) (Image, error)
}

// Reference returns Ref.
func (i Image) Reference() (string, error) { return i.Ref, nil }

// Build returns the image itself.
func (i Image) Build(context.Context, io.Writer) (Image, error) {
	if _, err := os.Stat(i.Path); err != nil {
		return Image{}, fmt.Errorf("finding the image %s: %w", i.Ref, err)
	}
	return i, nil
}

// LoadImage makes an image ready to be used by pods and returns its name. It is built first if need be, and not loaded
// again when the node has exactly that. Without real nodes nobody looks at images, and nothing is done.
func (c *Cluster) LoadImage(ctx context.Context, source ImageSource) (string, error) {
	if c.state.Nodes != Real {
		return source.Reference()
	}
	image, err := source.Build(ctx, c.progress.w)
	if err != nil {
		return "", err
	}
	id, err := image.id()
	if err != nil {
		return "", err
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if present, err := c.hasImage(ctx, image.Ref, id); err != nil || present {
		return image.Ref, err
	}
	return image.Ref, c.progress.do("loading the image "+image.Ref, func() error { return c.importImage(ctx, image, id) })
}

// importTimeout is for the largest image that we can think of, at 20 MB/s.
const importTimeout = 5 * time.Minute

func (c *Cluster) importImage(ctx context.Context, image Image, id string) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	// "k8s.io" is the namespace of containerd that the kubelet's images are in.
	if _, err := run("ctr", "--address="+containerdSocket(c.dir), "--namespace=k8s.io", "images", "import", image.Path); err != nil {
		return fmt.Errorf("loading the image %s: %w", image.Ref, err)
	}
	// The part of containerd that the kubelet asks hears of it a little later.
	for {
		present, err := c.hasImage(ctx, image.Ref, id)
		if err != nil || present {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("loading the image %s: containerd does not show it: %w", image.Ref, ctx.Err())
		case <-time.After(poll):
		}
	}
}

// hasImage tells whether the node has an image of that name with just that configuration.
func (c *Cluster) hasImage(ctx context.Context, ref, id string) (bool, error) {
	present := false
	err := withRuntime(c.dir, func(connection *grpc.ClientConn) error {
		response, err := cri.NewImageServiceClient(connection).ImageStatus(ctx, &cri.ImageStatusRequest{
			Image: &cri.ImageSpec{Image: ref},
		})
		if err != nil {
			return fmt.Errorf("asking for the image %s: %w", ref, err)
		}
		present = response.Image != nil && response.Image.Id == id
		return nil
	})
	return present, err
}

// id returns the digest of the image's configuration, which is its identity.
func (i Image) id() (string, error) {
	tag, err := name.NewTag(i.Ref, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("reading the image %s: %w", i.Ref, err)
	}
	image, err := tarball.ImageFromPath(i.Path, &tag)
	if err != nil {
		return "", fmt.Errorf("reading the image %s: %w", i.Ref, err)
	}
	hash, err := image.ConfigName()
	if err != nil {
		return "", fmt.Errorf("reading the image %s: %w", i.Ref, err)
	}
	return hash.String(), nil
}

// writeImage writes an image of one layer.
func writeImage(image Image, layer tarball.Opener, config v1.Config) error {
	content, err := newPlainLayer(layer)
	if err != nil {
		return fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	made, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	file, err := made.ConfigFile()
	if err != nil {
		return fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", goarch, config
	if made, err = mutate.ConfigFile(made, file); err != nil {
		return fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	return saveImage(image, made)
}

// saveImage writes an image to its file, which appears whole or not at all.
func saveImage(image Image, made v1.Image) error {
	tag, err := name.NewTag(image.Ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("making the image %s: %w", image.Ref, err)
	}
	if err := tarball.WriteToFile(image.Path+".new", tag, made); err != nil {
		return errors.Join(fmt.Errorf("writing the image %s: %w", image.Ref, err), os.Remove(image.Path+".new"))
	}
	if err := os.Rename(image.Path+".new", image.Path); err != nil {
		return fmt.Errorf("writing the image %s: %w", image.Ref, err)
	}
	return nil
}

// Images returns the files of all images that have been made, for a person to look at or remove.
func Images() ([]string, error) {
	dir, err := cacheDir("images")
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return nil, fmt.Errorf("listing the images: %w", err)
	}
	slices.Sort(files)
	return files, nil
}

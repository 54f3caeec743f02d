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

// imageRepository is the prefix of the names of all built images. The registry does not exist:
// images must be loaded into a node.
const imageRepository = "rollcall.training/"

// imageFormatVersion is part of each image hash. Increase it if the same recipe or program must
// result in another image.
const imageFormatVersion = 1

// Image is a container image in a file in the format of "docker save".
type Image struct {
	// Ref is the full name with tag, for example "rollcall.training/torch:1". Pods need the pull
	// policy IfNotPresent, the default for every tag except "latest", to use the loaded image
	// without a registry.
	Ref string
	// Path is the path of the file.
	Path string
}

// ImageSource builds an image. Implementations are Image, Binary, Recipe and Overlay.
type ImageSource interface {
	// Reference returns the full name of the image with tag, without building the image.
	Reference() (string, error)
	// Build returns the image and builds it if necessary. progress receives a line for each long
	// step.
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

// LoadImage loads an image into all real nodes and returns its name. It builds the image if necessary. It
// does nothing for nodes that already have the same image, and for nodes whose containerd is stopped.
func (c *Cluster) LoadImage(ctx context.Context, source ImageSource) (string, error) {
	if c.state.Nodes != Real {
		return source.Reference()
	}
	image, err := source.Build(ctx, c.progress)
	if err != nil {
		return "", err
	}
	for _, n := range listRealNodes(c.dir) {
		if _, isAlive := c.state.findProcess(n.component(containerdName)); !isAlive {
			continue
		}
		if err := c.loadImageInto(ctx, n, image); err != nil {
			return "", err
		}
	}
	return image.Ref, nil
}

// loadImageInto loads an image into a node that does not have it.
func (c *Cluster) loadImageInto(ctx context.Context, n realNode, image Image) error {
	id, err := image.readConfigDigest()
	if err != nil {
		return err
	}
	c.loadMutex.Lock()
	defer c.loadMutex.Unlock()
	if present, err := n.hasImage(ctx, image.Ref, id); err != nil || present {
		return err
	}
	return c.progress.runStep("loading the image "+image.Ref+" into "+n.name(), func() error {
		return n.importImage(ctx, image, id)
	})
}

// importTimeout is sufficient for an image of 6 GB at 20 MB/s.
const importTimeout = 5 * time.Minute

func (n realNode) importImage(ctx context.Context, image Image, id string) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	// The kubelet uses containerd's namespace "k8s.io".
	if _, err := runCommand("ctr",
		"--address="+containerdSocket(n.dir()), "--namespace=k8s.io", "images", "import", image.Path); err != nil {
		return fmt.Errorf("loading the image %s: %w", image.Ref, err)
	}
	// containerd's CRI plugin observes the image after a short delay.
	for {
		present, err := n.hasImage(ctx, image.Ref, id)
		if err != nil || present {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("loading the image %s: it is missing in containerd: %w", image.Ref, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// hasImage reports whether the node has an image with that name and that configuration digest.
func (n realNode) hasImage(ctx context.Context, ref, id string) (bool, error) {
	present := false
	err := withRuntimeConnection(n.dir(), func(connection *grpc.ClientConn) error {
		response, err := cri.NewImageServiceClient(connection).ImageStatus(ctx, &cri.ImageStatusRequest{
			Image: &cri.ImageSpec{Image: ref},
		})
		if err != nil {
			return fmt.Errorf("getting the image %s: %w", ref, err)
		}
		present = response.Image != nil && response.Image.Id == id
		return nil
	})
	return present, err
}

// readConfigDigest returns the digest of the image's configuration, which identifies the image.
func (i Image) readConfigDigest() (string, error) {
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
	content, err := newUncompressedLayer(layer)
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	made, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	file, err := made.ConfigFile()
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", goarch, config
	if made, err = mutate.ConfigFile(made, file); err != nil {
		return fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	return saveImage(image, made)
}

// saveImage writes an image to its file atomically.
func saveImage(image Image, made v1.Image) error {
	tag, err := name.NewTag(image.Ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("building the image %s: %w", image.Ref, err)
	}
	if err := tarball.WriteToFile(image.Path+".new", tag, made); err != nil {
		return errors.Join(fmt.Errorf("writing the image %s: %w", image.Ref, err), os.Remove(image.Path+".new"))
	}
	if err := os.Rename(image.Path+".new", image.Path); err != nil {
		return fmt.Errorf("writing the image %s: %w", image.Ref, err)
	}
	return nil
}

// ListImages returns the paths of all built images.
func ListImages() ([]string, error) {
	dir, err := ensureCacheDir("images")
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

package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is a registry that images are pushed to. It uses the credentials of docker login and podman
// login.
type Registry struct {
	// Insecure permits HTTP without TLS.
	Insecure bool
}

func (r Registry) parseTag(reference string) (name.Tag, error) {
	var options []name.Option
	if r.Insecure {
		options = append(options, name.Insecure)
	}
	tag, err := name.NewTag(reference, options...)
	if err != nil {
		return name.Tag{}, fmt.Errorf("parsing the name of the image: %w", err)
	}
	return tag, nil
}

func newRemoteOptions(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// PushImages pushes an index with its images, and their bills of materials as referrers.
func (r Registry) PushImages(ctx context.Context, reference string, s Source, images []ManagerImage) error {
	tag, err := r.parseTag(reference)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, s.BuildIndex(images), newRemoteOptions(ctx)...); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	for _, image := range images {
		referrer, err := s.BuildReferrer(image)
		if err != nil {
			return err
		}
		digest, err := referrer.Digest()
		if err != nil {
			return fmt.Errorf("computing the digest of the bill of materials: %w", err)
		}
		if err := remote.Write(tag.Context().Digest(digest.String()), referrer, newRemoteOptions(ctx)...); err != nil {
			return fmt.Errorf("pushing the bill of materials for %s: %w", image.Platform, err)
		}
	}
	return nil
}

// PushChart pushes a chart, so that helm install oci://... finds it.
func (r Registry) PushChart(ctx context.Context, reference string, chart Chart) error {
	tag, err := r.parseTag(reference)
	if err != nil {
		return err
	}
	artifact, err := chart.BuildArtifact()
	if err != nil {
		return err
	}
	if err := remote.Write(tag, artifact, newRemoteOptions(ctx)...); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// WriteTarball writes an image for one platform in the format of docker save.
func WriteTarball(path, reference string, image v1.Image) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("parsing the name of the image: %w", err)
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Loaders are the local clusters that an image can be loaded into, with the commands that do it. The
// argument after the command is the file.
var loaders = map[string][]string{
	"kind":     {"kind", "load", "image-archive"},
	"k3d":      {"k3d", "image", "import"},
	"minikube": {"minikube", "image", "load"},
}

// LoadImage loads an image into a local cluster. The tool is kind, k3d or minikube.
func LoadImage(ctx context.Context, tool, reference string, image v1.Image) error {
	file, err := os.CreateTemp("", "image-*.tar")
	if err != nil {
		return fmt.Errorf("creating a file for the image: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := file.Close(); err != nil {
		return fmt.Errorf("creating a file for the image: %w", err)
	}
	if err := WriteTarball(file.Name(), reference, image); err != nil {
		return err
	}
	arguments, ok := loaders[tool]
	if !ok {
		return fmt.Errorf("the tool %q is not kind, k3d or minikube", tool)
	}
	arguments = append(arguments[:len(arguments):len(arguments)], file.Name())
	if out, err := exec.CommandContext(ctx, arguments[0], arguments[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("loading %s with %s: %w\n%s", reference, tool, err, out)
	}
	return nil
}

package release

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Registry is a registry that images are pushed to. It uses the credentials of docker login and podman
// login.
type Registry struct {
	// Insecure permits HTTP without TLS.
	Insecure bool
	// Signer signs what is pushed; nil if nothing is signed.
	Signer *Signer
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

// PushImages pushes an index with its images, and their bills of materials as referrers. With a signer, the signature
// and the provenance are referrers of the index.
func (r Registry) PushImages(ctx context.Context, reference string, s Source, images []ManagerImage) error {
	tag, err := r.parseTag(reference)
	if err != nil {
		return err
	}
	index := s.BuildIndex(images)
	if err := remote.WriteIndex(tag, index, newRemoteOptions(ctx)...); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	for _, image := range images {
		referrer, err := s.BuildReferrer(image)
		if err != nil {
			return err
		}
		if err := pushReferrer(ctx, tag.Context(), referrer); err != nil {
			return fmt.Errorf("pushing the bill of materials for %s: %w", image.Platform, err)
		}
	}
	return r.pushSignatures(ctx, tag.Context(), s, index)
}

func pushReferrer(ctx context.Context, repository name.Repository, referrer v1.Image) error {
	digest, err := referrer.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest: %w", err)
	}
	return remote.Write(repository.Digest(digest.String()), referrer, newRemoteOptions(ctx)...)
}

// signable is an image, an index or a chart.
type signable interface {
	partial.Describable
	RawManifest() ([]byte, error)
}

// pushSignatures pushes the signature and the provenance of what is in a registry, as referrers that cosign finds.
func (r Registry) pushSignatures(ctx context.Context, repository name.Repository, s Source, signed signable) error {
	if r.Signer == nil {
		return nil
	}
	descriptor, err := partial.Descriptor(signed)
	if err != nil {
		return fmt.Errorf("describing what is signed: %w", err)
	}
	about := newSubject(repository.Name(), descriptor.Digest.Hex)
	signature, err := writeStatement(imageSignatureType, struct{}{}, about)
	if err != nil {
		return err
	}
	provenance, err := s.writeProvenance(about)
	if err != nil {
		return err
	}
	for _, content := range []struct {
		statement     []byte
		predicateType string
	}{{signature, imageSignatureType}, {provenance, provenanceType}} {
		bundle, err := r.Signer.SignStatement(content.statement)
		if err != nil {
			return err
		}
		artifact, err := buildArtifact(bundleMediaType, static.NewLayer(bundle, bundleMediaType))
		if err != nil {
			return err
		}
		artifact = mutate.Annotations(artifact, map[string]string{
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": content.predicateType,
		}).(v1.Image)
		if err := pushReferrer(ctx, repository, mutate.Subject(artifact, *descriptor).(v1.Image)); err != nil {
			return fmt.Errorf("pushing the signature: %w", err)
		}
	}
	return nil
}

// PushChart pushes a chart, so that helm install oci://... finds it, and signs it as an image.
func (r Registry) PushChart(ctx context.Context, reference string, s Source, chart Chart) error {
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
	return r.pushSignatures(ctx, tag.Context(), s, artifact)
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

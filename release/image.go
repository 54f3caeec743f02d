package release

import (
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonRootUser is the conventional user of images without a user database. It is numeric, so that
// Kubernetes can verify that it is not root.
const nonRootUser = "65532:65532"

// sbomMediaType is the type of a bill of materials in SPDX, as artifact and as content.
const sbomMediaType = types.MediaType("application/spdx+json")

// ManagerImage is the image of the manager for one platform.
type ManagerImage struct {
	// Platform is the platform of the program.
	Platform Platform
	// Image contains the program and the license texts of everything that it consists of.
	Image v1.Image
	// SBOM is the bill of materials in SPDX.
	SBOM []byte
}

// BuildImage puts the manager, the agent and license texts into an image.
func (s Source) BuildImage(manager, agent []byte, platform Platform, licenses []File) (v1.Image, error) {
	executables := []File{
		{Name: Manager.Name, Executable: true, Content: manager},
		{Name: Agent.Name, Executable: true, Content: agent},
	}
	image, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), &v1.ConfigFile{
		Architecture: platform.Arch,
		OS:           platform.OS,
		Created:      v1.Time{Time: s.Time},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/" + Manager.Name},
			User:       nonRootUser,
			WorkingDir: "/",
			Labels:     s.describeImage(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the image: %w", err)
	}
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, content := range []struct {
		files   []File
		comment string
	}{{licenses, "license texts"}, {executables, "the programs"}} {
		layer, err := newLayer(content.files, s.Time)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:     layer,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: s.Time}, CreatedBy: "release", Comment: content.comment},
		})
		if err != nil {
			return nil, fmt.Errorf("adding %s to the image: %w", content.comment, err)
		}
	}
	return image, nil
}

func newLayer(files []File, modified time.Time) (v1.Layer, error) {
	content, err := writeTar(files, modified)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("building a layer: %w", err)
	}
	return layer, nil
}

// describeImage returns the labels and annotations of the OCI image specification.
func (s Source) describeImage() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "Rollcall manager",
		"org.opencontainers.image.description": "Turns labeled Jobs and StatefulSets into distributed training gangs",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     s.Version,
		"org.opencontainers.image.revision":    s.Commit,
		"org.opencontainers.image.created":     s.Time.Format(time.RFC3339),
	}
}

// BuildIndex combines the images of several platforms under one name.
func (s Source) BuildIndex(images []ManagerImage) v1.ImageIndex {
	var addenda []mutate.IndexAddendum
	for _, image := range images {
		addenda = append(addenda, mutate.IndexAddendum{
			Add: image.Image,
			Descriptor: v1.Descriptor{
				MediaType: types.OCIManifestSchema1,
				Platform:  &v1.Platform{OS: image.Platform.OS, Architecture: image.Platform.Arch},
			},
		})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), addenda...)
	return mutate.Annotations(index, s.describeImage()).(v1.ImageIndex)
}

// BuildReferrer returns an artifact with the bill of materials of an image. Registries list it as a
// referrer of the image.
func (s Source) BuildReferrer(image ManagerImage) (v1.Image, error) {
	digest, err := image.Image.Digest()
	if err != nil {
		return nil, fmt.Errorf("computing the digest of the image: %w", err)
	}
	size, err := image.Image.Size()
	if err != nil {
		return nil, fmt.Errorf("computing the size of the image: %w", err)
	}
	artifact, err := buildArtifact(sbomMediaType, static.NewLayer(image.SBOM, sbomMediaType))
	if err != nil {
		return nil, err
	}
	subject := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size}
	return mutate.Subject(artifact, subject).(v1.Image), nil
}

// buildArtifact returns an OCI artifact with one layer. configMediaType is the type of the artifact.
func buildArtifact(configMediaType types.MediaType, layer v1.Layer) (v1.Image, error) {
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), configMediaType)
	mediaType, err := layer.MediaType()
	if err != nil {
		return nil, fmt.Errorf("building an artifact: %w", err)
	}
	artifact, err = mutate.Append(artifact, mutate.Addendum{Layer: layer, MediaType: mediaType})
	if err != nil {
		return nil, fmt.Errorf("building an artifact: %w", err)
	}
	return artifact, nil
}

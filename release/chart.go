package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// The media types of a chart in a registry. Source: helm.sh/helm pkg/registry/constants.go.
const (
	chartConfigMediaType  = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartContentMediaType = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

// Chart is a packaged Helm chart.
type Chart struct {
	// FileName is the name that helm package would choose, such as rollcall-0.2.0.tgz.
	FileName string
	// Version is the version of the chart, without the prefix v.
	Version string
	// Content is the compressed archive.
	Content []byte
	// metadata is Chart.yaml as JSON.
	metadata []byte
}

// PackageChart packages the chart of the source. The default image of the packaged chart is the
// repository with the digest.
func (s Source) PackageChart(repository string, digest v1.Hash) (Chart, error) {
	version := strings.TrimPrefix(s.Version, "v")
	root := filepath.Join(s.Dir, "charts", "rollcall")
	var files []File
	var metadata []byte
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch name {
		case "Chart.yaml":
			content, err = setYAML(content, map[string]string{"version": version, "appVersion": s.Version})
			metadata = content
		case "values.yaml":
			content, err = setYAML(content, map[string]string{"image.repository": repository, "image.digest": digest.String()})
		}
		files = append(files, File{Name: "rollcall/" + filepath.ToSlash(name), Content: content})
		return err
	})
	if err != nil {
		return Chart{}, fmt.Errorf("reading the chart: %w", err)
	}
	content, err := writeTarGzip(files, s.Time)
	if err != nil {
		return Chart{}, err
	}
	config, err := sigsyaml.YAMLToJSON(metadata)
	if err != nil {
		return Chart{}, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	return Chart{FileName: "rollcall-" + version + ".tgz", Version: version, Content: content, metadata: config}, nil
}

// setYAML sets string values by their paths and keeps comments. Every path must exist.
func setYAML(text []byte, values map[string]string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 {
		return nil, errors.New("one YAML document is expected")
	}
	for path, value := range values {
		node := document.Content[0]
		for key := range strings.SplitSeq(path, ".") {
			if node = findYAMLValue(node, key); node == nil {
				return nil, fmt.Errorf("the key %s does not exist", path)
			}
		}
		node.SetString(value)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func findYAMLValue(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// BuildArtifact returns the chart as helm push stores it in a registry.
func (c Chart) BuildArtifact() (v1.Image, error) {
	layer := static.NewLayer(c.Content, chartContentMediaType)
	content, err := partial.Descriptor(layer)
	if err != nil {
		return nil, fmt.Errorf("describing the chart: %w", err)
	}
	config := static.NewLayer(c.metadata, chartConfigMediaType)
	metadata, err := partial.Descriptor(config)
	if err != nil {
		return nil, fmt.Errorf("describing Chart.yaml: %w", err)
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        *metadata,
		Layers:        []v1.Descriptor{*content},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the manifest of the chart: %w", err)
	}
	return partial.CompressedToImage(chartArtifact{manifest: manifest, config: c.metadata, content: layer})
}

// chartArtifact is an OCI artifact whose configuration is Chart.yaml. The configurations of other images
// in this package are those of containers.
type chartArtifact struct {
	manifest, config []byte
	content          v1.Layer
}

func (a chartArtifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a chartArtifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a chartArtifact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a chartArtifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) {
	return a.content, nil
}

package recorded

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"rollcall.training/gang"
)

//go:embed objects/*.yaml
var files embed.FS

// Build contains the recorded workloads of one build.
type Build struct {
	// Commit is the commit of the build.
	Commit string
	// Workloads are the members of gangs. Members of the same gang follow each other. The name of a gang is its
	// state, such as "restarting".
	Workloads []gang.Workload
}

// Builds returns the recorded builds in the order of their commits' names. The caller owns the result.
func Builds() ([]Build, error) {
	entries, err := files.ReadDir("objects")
	if err != nil {
		return nil, fmt.Errorf("listing the recorded builds: %w", err)
	}
	var builds []Build
	for _, entry := range entries {
		text, err := files.ReadFile(path.Join("objects", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a recorded build: %w", err)
		}
		build := Build{Commit: strings.TrimSuffix(entry.Name(), ".yaml")}
		for _, document := range bytes.Split(text, []byte("---\n")) {
			if len(bytes.TrimSpace(document)) == 0 {
				continue
			}
			w, err := decodeWorkload(document)
			if err != nil {
				return nil, fmt.Errorf("decoding a workload of the build %s: %w", build.Commit, err)
			}
			build.Workloads = append(build.Workloads, w)
		}
		builds = append(builds, build)
	}
	return builds, nil
}

func decodeWorkload(document []byte) (gang.Workload, error) {
	var header struct {
		Kind gang.Kind `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &header); err != nil {
		return gang.Workload{}, err
	}
	w, ok := gang.NewWorkload(header.Kind)
	if !ok {
		return w, fmt.Errorf("unsupported kind %q", header.Kind)
	}
	return w, yaml.UnmarshalStrict(document, w.Object())
}

package trainer

import (
	"embed"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// bundledRuntimesVersion is the release of the runtimes in the folder runtimes.
const bundledRuntimesVersion = "2.3"

//go:embed runtimes/*.yaml
var bundledRuntimeFiles embed.FS

// BundledRuntimes returns the sorted names of the ClusterTrainingRuntimes that Trainer installs.
func BundledRuntimes() []string {
	files, err := bundledRuntimeFiles.ReadDir("runtimes")
	if err != nil {
		return nil // cannot happen: the files are embedded
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// readBundledRuntime returns a runtime that Trainer installs as decoded JSON, or nil.
func readBundledRuntime(name string) map[string]any {
	text, err := bundledRuntimeFiles.ReadFile("runtimes/" + name + ".yaml")
	if err != nil {
		return nil
	}
	var tree map[string]any
	if yaml.Unmarshal(text, &tree) != nil {
		return nil // cannot happen: a test decodes all files
	}
	return tree
}

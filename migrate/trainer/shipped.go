package trainer

import (
	"embed"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// shippedVersion is the release whose runtimes are in the folder runtimes.
const shippedVersion = "2.3"

//go:embed runtimes/*.yaml
var shippedFiles embed.FS

// Shipped are the names of the ClusterTrainingRuntimes that Trainer installs itself,
// sorted.
func Shipped() []string {
	files, err := shippedFiles.ReadDir("runtimes")
	if err != nil {
		return nil // they are embedded
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// shippedRuntime is one of them as a tree of JSON; nil when there is none.
func shippedRuntime(name string) map[string]any {
	text, err := shippedFiles.ReadFile("runtimes/" + name + ".yaml")
	if err != nil {
		return nil
	}
	var tree map[string]any
	if yaml.Unmarshal(text, &tree) != nil {
		return nil // a test reads them all
	}
	return tree
}

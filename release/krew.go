package release

import (
	"fmt"

	sigsyaml "sigs.k8s.io/yaml"
)

// shortDescription is what package managers show of the command line.
const shortDescription = "Check, migrate and inspect training gangs"

// writeKrewManifest returns the manifest of the kubectl plugin. downloadURL is the URL of the folder that
// contains the archives.
func (s Source) writeKrewManifest(archives []commandArchive, downloadURL string) ([]byte, error) {
	var platforms []map[string]any
	for _, archive := range archives {
		extension := executableExtension(archive.platform)
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{
				"matchLabels": map[string]string{"os": archive.platform.OS, "arch": archive.platform.Arch},
			},
			"uri":    downloadURL + "/" + archive.fileName,
			"sha256": hashSHA256(archive.content),
			"files": []map[string]string{
				{"from": Command.Name + extension, "to": "kubectl-rollcall" + extension},
				{"from": "LICENSE", "to": "."},
			},
			"bin": "kubectl-rollcall" + extension,
		})
	}
	manifest, err := sigsyaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": Command.Name},
		"spec": map[string]any{
			"version":          s.Version,
			"shortDescription": shortDescription,
			"description": "Checks manifests of training gangs, converts jobs of other systems to labeled Jobs,\n" +
				"and shows the phase and the logs of the gangs of a cluster.\n",
			"platforms": platforms,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the manifest for krew: %w", err)
	}
	return manifest, nil
}

package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// MinKubernetesVersion is the oldest supported release of Kubernetes.
const MinKubernetesVersion = "1.33"

// minRestartRulesVersion is the first release that enables restart rules of containers by default
// (KEP-5307, beta).
var minRestartRulesVersion = version.MustParseGeneric("1.35.0")

// SupportsContainerRestartRules reports whether an API server of the given version, such as
// "v1.34.2", supports restart rules of containers. An older API server drops the fields silently.
// The error is for text that is not a version.
func SupportsContainerRestartRules(kubernetesVersion string) (bool, error) {
	v, err := parseKubernetesVersion(kubernetesVersion)
	if err != nil {
		return false, err
	}
	return v.AtLeast(minRestartRulesVersion), nil
}

// ValidateKubernetesVersion returns an error for text that is not a version, and for a version that
// is older than [MinKubernetesVersion].
func ValidateKubernetesVersion(kubernetesVersion string) error {
	v, err := parseKubernetesVersion(kubernetesVersion)
	if err != nil {
		return err
	}
	if !v.AtLeast(version.MustParseGeneric(MinKubernetesVersion)) {
		return fmt.Errorf("version %s is not supported; use %s or newer", kubernetesVersion, MinKubernetesVersion)
	}
	return nil
}

func parseKubernetesVersion(text string) (*version.Version, error) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the Kubernetes version: %w; use a version such as 1.37 or v1.37.2", err)
	}
	return v, nil
}

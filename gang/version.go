package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// restartRules is the first release that knows restart rules of containers without
// being told to (KEP-5307, beta).
var restartRules = version.MustParseGeneric("1.35.0")

// NoRestartRules reports whether an API server of the given version, such as
// "v1.34.2", is too old to know them: it would drop the fields in silence. The error
// says that the text is no version.
func NoRestartRules(kubernetes string) (bool, error) {
	v, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return false, fmt.Errorf("reading the version of Kubernetes: %w; write it as 1.37 or v1.37.2", err)
	}
	return v.LessThan(restartRules), nil
}

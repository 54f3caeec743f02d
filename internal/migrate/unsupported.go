package migrate

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

// otherJobKinds are kinds of training jobs that no supported API group has.
var otherJobKinds = []string{"MXJob", "ElasticJob", "ElasticDLJob", "HyperPodPyTorchJob", "RayJob", "TrainingJob"}

// explainUnsupportedJob returns why a training job passes through, for example one of an API group that the
// operator used earlier. It returns an empty string for all other objects.
func explainUnsupportedJob(o manifest.Object) string {
	group, fix := o.APIGroup(), ""
	isJob := slices.Contains(otherJobKinds, o.Kind) || group == kubeflow.Group && strings.HasSuffix(o.Kind, "Job")
	for supported := range readersByGroup() {
		if o.Kind != "Job" && source.IsJobKind(supported, o.Kind) {
			isJob, fix = true, fmt.Sprintf("; convert the manifest to %s of %s first", o.Kind, supported)
		}
	}
	if !isJob {
		return ""
	}
	return fmt.Sprintf("migrate does not support the kind %s of apiVersion %q%s", o.Kind, o.APIVersion, fix)
}

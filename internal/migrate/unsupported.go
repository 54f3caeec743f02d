package migrate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"rollcall.training/internal/manifest"
	"rollcall.training/internal/migrate/kubeflow"
	"rollcall.training/internal/migrate/source"
)

// otherJobKinds are kinds of training jobs that no supported API group has.
var otherJobKinds = []string{"MXJob", "ElasticJob", "ElasticDLJob", "HyperPodPyTorchJob", "RayJob", "TrainingJob"}

// explainUnsupportedJob returns why a training job passes through, for example one of an API group that the
// operator used earlier. It returns an empty string for all other objects.
func explainUnsupportedJob(o manifest.Object) string {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil || gv.Group == "" || gv.Group == "batch" || isMigratable(o) {
		return ""
	}
	isOfKubeflow := gv.Group == kubeflow.Group && strings.HasSuffix(o.Kind, "Job")
	if !isOfKubeflow && !slices.Contains(otherJobKinds, o.Kind) && supportedGroupOf(o.Kind) == "" {
		return ""
	}
	text := fmt.Sprintf("migrate does not support the kind %s of the API group %s", o.Kind, gv.Group)
	if group := supportedGroupOf(o.Kind); group != "" {
		text += fmt.Sprintf("; convert the manifest to %s of %s first", o.Kind, group)
	}
	return text
}

// supportedGroupOf returns the API group of a kind that only training jobs have; empty if there is none.
func supportedGroupOf(kind string) string {
	for group := range readersByGroup() {
		if kind != "Job" && source.IsJobKind(group, kind) {
			return group
		}
	}
	return ""
}

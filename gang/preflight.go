package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Exit codes of the init container that [AnnotationPreflight] names. The numbers are those of Kubeflow Trainer's
// proposal for such checks (KEP-3416). Any other code than 0 is the failure of an init container.
const (
	// PreflightNodeFailed means that the node must not be used.
	PreflightNodeFailed = 20
	// PreflightFatal means that no other node helps.
	PreflightFatal = 30
)

// parsePreflight parses the name of the init container that checks the node. A sidecar does not exit before the
// training starts.
func (p *parser) parsePreflight() string {
	name, ok := p.meta.Annotations[AnnotationPreflight]
	if !ok {
		return ""
	}
	var names []string
	for _, c := range p.workload.Template().Spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	path := annotationsPath.Key(AnnotationPreflight)
	switch {
	case slices.Contains(names, name):
		return name
	case len(names) == 0:
		p.addInvalid(path, name, "the pod template has no init container that exits; add one, or remove the annotation")
	default:
		p.addUnsupported(path, name, names)
	}
	return ""
}

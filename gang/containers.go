package gang

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// annotationDefaultContainer marks the main container of a pod for kubectl (KEP-2227).
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// parseContainers returns the training containers: the containers in [AnnotationContainers], else
// kubectl's default container, else the first container. No container name has a special meaning.
func (p *parser) parseContainers(gpus *GPUs) []Container {
	template := p.workload.Template()
	all := template.Spec.Containers
	if len(all) == 0 {
		p.errs = append(p.errs, field.Required(templateSpecPath.Child("containers"),
			"a gang needs a training container; add one"))
		return nil
	}
	names := []string{all[0].Name}
	if list, ok := p.meta.Annotations[AnnotationContainers]; ok {
		names = p.parseContainerNames(annotationsPath.Key(AnnotationContainers), list)
	} else if name, ok := template.Annotations[annotationDefaultContainer]; ok {
		names = p.resolveDefaultContainer(name, names)
	}
	var containers []Container
	for i := range all {
		if slices.Contains(names, all[i].Name) {
			containers = append(containers, newContainer(&all[i], gpus))
		}
	}
	return containers
}

// resolveDefaultContainer returns kubectl's default container if it can be a training container,
// else fallback. The annotation has another purpose and can name an init container.
func (p *parser) resolveDefaultContainer(name string, fallback []string) []string {
	for _, c := range p.workload.Template().Spec.Containers {
		if c.Name == name {
			return []string{name}
		}
	}
	p.addWarning(templateAnnotationsPath.Key(annotationDefaultContainer), fmt.Sprintf(
		"%q is not a container of the pod, so %q is the training container; to choose another, set the annotation %s",
		name, fallback[0], AnnotationContainers))
	return fallback
}

// parseContainerNames parses a list of container names, separated by commas.
func (p *parser) parseContainerNames(path *field.Path, list string) []string {
	var allowed, names []string
	for _, c := range p.workload.Template().Spec.Containers {
		allowed = append(allowed, c.Name)
	}
	seen := map[string]bool{}
	for item := range strings.SplitSeq(list, ",") {
		name := strings.TrimSpace(item)
		switch {
		case seen[name]:
			p.errs = append(p.errs, field.Duplicate(path, name))
		case !slices.Contains(allowed, name):
			p.addUnsupported(path, name, allowed)
		default:
			names = append(names, name)
		}
		seen[name] = true
	}
	return names
}

func newContainer(c *corev1.Container, gpus *GPUs) Container {
	container := Container{
		Name:              c.Name,
		Accelerators:      CountAccelerators(c.Resources),
		HasResourceClaims: len(c.Resources.Claims) > 0,
		HasTPU:            hasTPU(c.Resources, gpus),
	}
	if gpus != nil {
		container.Accelerators = gpus.Count
	}
	if cpu, ok := c.Resources.Limits[corev1.ResourceCPU]; ok {
		container.CPU = cpu.Value() // rounds up, because half a core still runs one process
	}
	if memory, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		container.Memory = memory.Value()
	}
	return container
}

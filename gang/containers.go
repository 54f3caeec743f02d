package gang

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// annotationDefaultContainer is kubectl's own marker for a pod's main container
// (sigs.k8s.io/cli-utils, KEP-2227); whoever set it already said which one trains.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// containers finds the training containers: those the user names, else kubectl's
// default container, else the first one. No container name has a meaning of its
// own.
func (p *parser) containers(gpus *GPUs) []Container {
	template := p.workload.Template()
	all := template.Spec.Containers
	path := templateSpecPath.Child("containers")
	if len(all) == 0 {
		p.errs = append(p.errs, field.Required(path, "a gang needs a container that trains; add one"))
		return nil
	}
	names := []string{all[0].Name}
	if v, ok := p.meta.Annotations[AnnotationContainer]; ok {
		names = p.named(annotationsPath.Key(AnnotationContainer), v)
	} else if v, ok := template.Annotations[annotationDefaultContainer]; ok {
		names = p.hinted(v, names)
	}
	var targets []Container
	for i := range all {
		for _, n := range names {
			if all[i].Name == n {
				targets = append(targets, containerOf(&all[i], gpus))
			}
		}
	}
	return targets
}

// hinted is kubectl's default container, if it is one that can train: the hint was
// given for another purpose, and may name an init container too.
func (p *parser) hinted(name string, otherwise []string) []string {
	for _, c := range p.workload.Template().Spec.Containers {
		if c.Name == name {
			return []string{name}
		}
	}
	p.warn(templateAnnotationsPath.Key(annotationDefaultContainer), fmt.Sprintf(
		"%q is none of the containers, so %q trains; name another with the annotation %s", name, otherwise[0], AnnotationContainer))
	return otherwise
}

// named reads a comma list of container names and checks it against the template.
func (p *parser) named(path *field.Path, list string) []string {
	var have, names []string
	for _, c := range p.workload.Template().Spec.Containers {
		have = append(have, c.Name)
	}
	seen := map[string]bool{}
	for raw := range strings.SplitSeq(list, ",") {
		name := strings.TrimSpace(raw)
		switch {
		case seen[name]:
			p.errs = append(p.errs, field.Duplicate(path, name))
		case !slices.Contains(have, name):
			p.unsupported(path, name, have)
		default:
			names = append(names, name)
		}
		seen[name] = true
	}
	return names
}

func containerOf(c *corev1.Container, gpus *GPUs) Container {
	out := Container{Name: c.Name, Accelerators: accelerators(c.Resources), Claims: len(c.Resources.Claims) > 0, TPU: hasTPU(c.Resources, gpus)}
	if gpus != nil {
		out.Accelerators = gpus.Count
	}
	if q, ok := c.Resources.Limits[corev1.ResourceCPU]; ok {
		out.CPU = q.Value() // rounds up: half a core still runs one process
	}
	if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		out.Memory = q.Value()
	}
	return out
}

package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AnnotationDefaultContainer marks the main container of a pod for kubectl (KEP-2227).
const AnnotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// parseContainers returns the training containers: the containers in [AnnotationContainers], else the
// container that [Frameworks.FindTrainingContainer] finds. No container name has a special meaning.
func (p *parser) parseContainers(gpus *GPUs) []Container {
	template := p.workload.Template()
	all := template.Spec.Containers
	if len(all) == 0 {
		p.errs = append(p.errs, field.Required(templateSpecPath.Child("containers"),
			"a gang needs a training container; add one"))
		return nil
	}
	var names []string
	if list, ok := p.meta.Annotations[AnnotationContainers]; ok {
		names = p.parseContainerNames(annotationsPath.Key(AnnotationContainers), list)
	} else {
		names = []string{p.chooseContainer(all)}
	}
	var containers []Container
	for i := range all {
		if slices.Contains(names, all[i].Name) {
			containers = append(containers, newContainer(&all[i], gpus))
		}
	}
	return containers
}

// FindTrainingContainer returns the name of the training container of a pod template if no annotation
// of Rollcall names it: kubectl's default container, else the first container that runs a launcher,
// else the first container with accelerators, else the first container. It is empty for a template
// without containers.
func (fs Frameworks) FindTrainingContainer(template *corev1.PodTemplateSpec) string {
	p := parser{frameworks: fs, workload: Workload{Job: &batchv1.Job{Spec: batchv1.JobSpec{Template: *template}}}}
	if len(template.Spec.Containers) == 0 {
		return ""
	}
	return p.chooseContainer(template.Spec.Containers)
}

// chooseContainer returns the result of [Frameworks.FindTrainingContainer]. It warns if the result is surprising:
// another container than the first, or a default container that seems not to train.
func (p *parser) chooseContainer(all []corev1.Container) string {
	if len(all) == 1 {
		return p.resolveDefaultContainer(all, all[0].Name)
	}
	name, reason := p.findTrainingContainer(all)
	chosen := p.resolveDefaultContainer(all, name)
	switch {
	case chosen != name && reason != "" && p.explainTraining(findContainer(all, chosen)) == "":
		p.addWarning(templateAnnotationsPath.Key(AnnotationDefaultContainer), fmt.Sprintf(
			"%q is the training container, but container %q %s; if it trains, set the annotation %s: %s",
			chosen, name, reason, AnnotationContainers, name))
	case chosen == name && name != all[0].Name && reason != "" && !p.hasDefaultContainer():
		p.addWarning(annotationsPath.Key(AnnotationContainers), fmt.Sprintf(
			"is not set; container %q is the training container, because it %s; to choose another, set the annotation",
			name, reason))
	}
	return chosen
}

// findTrainingContainer returns the name of the container that seems to train, and why. Without an
// indication, it returns the first container and no reason.
func (p *parser) findTrainingContainer(all []corev1.Container) (name, reason string) {
	for _, explain := range []func(*corev1.Container) string{p.explainLauncher, explainAccelerators} {
		for i := range all {
			if reason := explain(&all[i]); reason != "" {
				return all[i].Name, reason
			}
		}
	}
	return all[0].Name, ""
}

// explainTraining returns why a container seems to train; empty without an indication.
func (p *parser) explainTraining(c *corev1.Container) string {
	return cmp.Or(p.explainLauncher(c), explainAccelerators(c))
}

func (p *parser) explainLauncher(c *corev1.Container) string {
	if p.launchers == nil {
		p.launchers = p.frameworks.Launchers().NewScanner()
	}
	if launcher := p.launchers.Scan(slices.Concat(c.Command, c.Args)); launcher != "" {
		return "runs " + launcher
	}
	return ""
}

func explainAccelerators(c *corev1.Container) string {
	if CountAccelerators(c.Resources) > 0 {
		return "requests accelerators"
	}
	return ""
}

func findContainer(all []corev1.Container, name string) *corev1.Container {
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name })
	return &all[i]
}

func (p *parser) hasDefaultContainer() bool {
	_, ok := p.workload.Template().Annotations[AnnotationDefaultContainer]
	return ok
}

// resolveDefaultContainer returns kubectl's default container if it can be a training container,
// else fallback. The annotation has another purpose and can name an init container.
func (p *parser) resolveDefaultContainer(all []corev1.Container, fallback string) string {
	name, ok := p.workload.Template().Annotations[AnnotationDefaultContainer]
	isContainer := func(c corev1.Container) bool { return c.Name == name }
	if !ok || slices.ContainsFunc(all, isContainer) {
		return cmp.Or(name, fallback)
	}
	p.addWarning(templateAnnotationsPath.Key(AnnotationDefaultContainer), fmt.Sprintf(
		"%q is not a container of the pod, so %q is the training container; to choose another, set the annotation %s",
		name, fallback, AnnotationContainers))
	return fallback
}

// parseContainerNames parses a list of container names, separated by commas.
func (p *parser) parseContainerNames(path *field.Path, list string) []string {
	var allowed, names []string
	for _, c := range p.workload.Template().Spec.Containers {
		allowed = append(allowed, c.Name)
	}
	seen, errsBefore := map[string]bool{}, len(p.errs)
	for item := range strings.SplitSeq(list, ",") {
		if p.hasMaxErrors(errsBefore) {
			break
		}
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
		HasResourceClaims: HasResourceClaims(c.Resources),
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

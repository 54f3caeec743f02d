package injection

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Paths of the pod template in both kinds of workloads, and of its metadata.
var (
	templatePath    = field.NewPath("spec", "template")
	labelsPath      = templatePath.Child("metadata", "labels")
	annotationsPath = templatePath.Child("metadata", "annotations")
)

// podTemplate is a view of a pod template with an index of its containers.
type podTemplate struct {
	template         *corev1.PodTemplateSpec
	containers       []*container // init containers first
	containersByName map[string]*container
}

func newPodTemplate(t *corev1.PodTemplateSpec) *podTemplate {
	p := &podTemplate{template: t}
	p.rebuildIndex()
	return p
}

// rebuildIndex must be called after a container was added or removed. Existing container views become
// invalid.
func (p *podTemplate) rebuildIndex() {
	spec := &p.template.Spec
	p.containers, p.containersByName = nil, map[string]*container{}
	add := func(list []corev1.Container, fieldName string, isInit bool) {
		for i := range list {
			c := &container{Container: &list[i], isInit: isInit, path: templatePath.Child("spec", fieldName).Index(i)}
			c.rebuildEnvIndex()
			p.containers = append(p.containers, c)
			p.containersByName[c.Name] = c
		}
	}
	add(spec.InitContainers, "initContainers", true)
	add(spec.Containers, "containers", false)
}

func (p *podTemplate) findVolume(name string) *corev1.Volume {
	for i := range p.template.Spec.Volumes {
		if p.template.Spec.Volumes[i].Name == name {
			return &p.template.Spec.Volumes[i]
		}
	}
	return nil
}

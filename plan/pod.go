package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// templatePath is where both workload kinds keep their pod template.
var templatePath = field.NewPath("spec", "template")

// pod is an indexed view of a workload's pod template.
type pod struct {
	template   *corev1.PodTemplateSpec
	containers []*container
	byName     map[string]*container
}

func newPod(t *corev1.PodTemplateSpec) *pod {
	p := &pod{template: t}
	p.reindex()
	return p
}

// reindex looks at the containers anew, which is needed whenever one was added or
// removed.
func (p *pod) reindex() {
	t := p.template
	p.containers, p.byName = nil, map[string]*container{}
	add := func(list []corev1.Container, name string, init bool) {
		for i := range list {
			c := &container{Container: &list[i], init: init, path: templatePath.Child("spec", name).Index(i)}
			c.reindex()
			p.containers = append(p.containers, c)
			p.byName[c.Name] = c
		}
	}
	add(t.Spec.InitContainers, "initContainers", true)
	add(t.Spec.Containers, "containers", false)
}

func (p *pod) volume(name string) *corev1.Volume {
	for i := range p.template.Spec.Volumes {
		if p.template.Spec.Volumes[i].Name == name {
			return &p.template.Spec.Volumes[i]
		}
	}
	return nil
}

// value returns what stands at a place now; nil when nothing does.
func (p *pod) value(s slot) any {
	switch s.kind {
	case slotVolume:
		if v := p.volume(s.name); v != nil {
			return *v
		}
	case slotLabel:
		if v, ok := p.template.Labels[s.name]; ok {
			return v
		}
	case slotSearch:
		if d := p.template.Spec.DNSConfig; d != nil && slices.Contains(d.Searches, s.name) {
			return s.name
		}
	default:
		if c := p.byName[s.container]; c != nil {
			return c.value(s)
		}
	}
	return nil
}

// remove empties a place.
func (p *pod) remove(s slot) {
	switch s.kind {
	case slotVolume:
		p.template.Spec.Volumes = slices.DeleteFunc(p.template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == s.name })
	case slotLabel:
		delete(p.template.Labels, s.name)
	case slotSearch:
		p.removeSearch(s.name)
	case slotInit:
		inits := &p.template.Spec.InitContainers
		*inits = slices.DeleteFunc(*inits, func(c corev1.Container) bool { return c.Name == s.container })
		p.reindex()
	default:
		if c := p.byName[s.container]; c != nil {
			c.remove(s)
		}
	}
}

// removeSearch takes a search domain away, and the settings that it leaves empty.
func (p *pod) removeSearch(name string) {
	d := p.template.Spec.DNSConfig
	if d == nil {
		return
	}
	d.Searches = slices.DeleteFunc(d.Searches, func(s string) bool { return s == name })
	if len(d.Searches)+len(d.Nameservers)+len(d.Options) == 0 {
		p.template.Spec.DNSConfig = nil
	}
}

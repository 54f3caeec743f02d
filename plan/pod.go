package plan

import (
	"path"
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

// container is one container of the template with an index of its env.
type container struct {
	*corev1.Container
	path *field.Path
	init bool
	env  map[string]int // the last entry of each name, which the kubelet takes
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

func (c *container) reindex() {
	c.env = make(map[string]int, len(c.Env))
	for i := range c.Env {
		c.env[c.Env[i].Name] = i
	}
}

func (c *container) envAt(name string) (*corev1.EnvVar, bool) {
	i, ok := c.env[name]
	if !ok {
		return nil, false
	}
	return &c.Env[i], true
}

func (c *container) insertEnv(at int, e corev1.EnvVar) {
	c.Env = slices.Insert(c.Env, at, e)
	if at == len(c.Env)-1 {
		c.env[e.Name] = at
		return
	}
	c.reindex()
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
	c := p.byName[s.container]
	switch s.kind {
	case slotVolume:
		if v := p.volume(s.name); v != nil {
			return *v
		}
		return nil
	case slotLabel:
		if v, ok := p.template.Labels[s.name]; ok {
			return v
		}
		return nil
	case slotSearch:
		if d := p.template.Spec.DNSConfig; d != nil && slices.Contains(d.Searches, s.name) {
			return s.name
		}
		return nil
	}
	if c == nil {
		return nil
	}
	switch s.kind {
	case slotInit:
		return skeleton(c.Container)
	case slotCommand:
		if len(c.Command) > 0 {
			return c.Command
		}
	case slotRestart:
		if c.RestartPolicy != nil {
			return restart{c.RestartPolicy, c.RestartPolicyRules}
		}
	case slotLastWords:
		return c.TerminationMessagePolicy
	case slotEnv:
		if e, ok := c.envAt(s.name); ok {
			return *e
		}
	case slotMount:
		for _, m := range c.VolumeMounts {
			if path.Clean(m.MountPath) == s.name {
				return m
			}
		}
	case slotResource:
		if q, ok := c.Resources.Limits[corev1.ResourceName(s.name)]; ok {
			return q.String()
		}
	}
	return nil
}

// remove empties a place.
func (p *pod) remove(s slot) {
	c := p.byName[s.container]
	switch s.kind {
	case slotVolume:
		p.template.Spec.Volumes = slices.DeleteFunc(p.template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == s.name })
		return
	case slotLabel:
		delete(p.template.Labels, s.name)
		return
	case slotSearch:
		p.removeSearch(s.name)
		return
	}
	if c == nil {
		return
	}
	switch s.kind {
	case slotInit:
		inits := &p.template.Spec.InitContainers
		*inits = slices.DeleteFunc(*inits, func(c corev1.Container) bool { return c.Name == s.container })
		p.reindex()
	case slotCommand:
		c.Command = nil
	case slotRestart:
		c.RestartPolicy, c.RestartPolicyRules = nil, nil
	case slotLastWords:
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	case slotEnv:
		if i, ok := c.env[s.name]; ok {
			c.Env = slices.Delete(c.Env, i, i+1)
			c.reindex()
		}
	case slotMount:
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == s.name })
	case slotResource:
		delete(c.Resources.Limits, corev1.ResourceName(s.name))
		delete(c.Resources.Requests, corev1.ResourceName(s.name))
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

// skeleton is a container without its variables, which are places of their own, and
// without the pull policy, which the API server chooses by the image's tag.
func skeleton(c *corev1.Container) corev1.Container {
	out := *c
	out.Env, out.ImagePullPolicy = nil, ""
	return out
}

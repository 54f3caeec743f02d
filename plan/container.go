package plan

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// container is one container of the template with an index of its env.
type container struct {
	*corev1.Container
	path *field.Path
	init bool
	env  map[string]int // the last entry of each name, which the kubelet takes
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

// value returns what stands at a place of the container now; nil when nothing does.
func (c *container) value(s slot) any {
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

// remove empties a place of the container.
func (c *container) remove(s slot) {
	switch s.kind {
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

// skeleton is a container without its variables, which are places of their own, and
// without the pull policy, which the API server chooses by the image's tag.
func skeleton(c *corev1.Container) corev1.Container {
	out := *c
	out.Env, out.ImagePullPolicy = nil, ""
	return out
}

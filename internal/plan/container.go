package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// container is a view of a container of the pod template with an index of its env.
type container struct {
	*corev1.Container
	path     *field.Path
	isInit   bool
	envIndex map[string]int // index of the last entry of each name, which is the entry that takes effect
}

// expectedInsertions is the number of variables that a usual plan inserts, for which memory is reserved.
const expectedInsertions = 32

func (c *container) rebuildEnvIndex() {
	if c.envIndex == nil {
		c.envIndex = make(map[string]int, len(c.Env)+expectedInsertions)
	}
	clear(c.envIndex)
	for i := range c.Env {
		c.envIndex[c.Env[i].Name] = i
	}
}

func (c *container) findEnv(name string) (*corev1.EnvVar, bool) {
	i, ok := c.envIndex[name]
	if !ok {
		return nil, false
	}
	return &c.Env[i], true
}

func (c *container) insertEnv(at int, e corev1.EnvVar) {
	c.Env = slices.Insert(c.Env, at, e)
	if isLast := at == len(c.Env)-1; isLast {
		c.envIndex[e.Name] = at
		return
	}
	c.rebuildEnvIndex()
}

func (c *container) removeEnv(name string) {
	if i, ok := c.envIndex[name]; ok {
		c.Env = slices.Delete(c.Env, i, i+1)
		c.rebuildEnvIndex()
	}
}

package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

func (c *container) readEnv(name string) any {
	if e, ok := c.findEnv(name); ok {
		return e
	}
	return nil
}

func (c *container) findEnv(name string) (*corev1.EnvVar, bool) {
	i, ok := c.envIndex[name]
	if !ok {
		return nil, false
	}
	return &c.Env[i], true
}

// setEnv sets the entry of a name that takes effect, or appends an entry.
func (c *container) setEnv(e *corev1.EnvVar) {
	existing, exists := c.findEnv(e.Name)
	switch {
	case !exists:
		c.envIndex[e.Name] = len(c.Env)
		c.Env = append(c.Env, *e)
	case !equality.Semantic.DeepEqual(*existing, *e):
		*existing = *e
	}
}

// moveInFront inserts entries before all others. They replace those of their names that take effect.
func (c *container) moveInFront(entries []corev1.EnvVar) {
	replaced := map[int]bool{}
	for i := range entries {
		if index, ok := c.envIndex[entries[i].Name]; ok {
			replaced[index] = true
		}
	}
	env := append(make([]corev1.EnvVar, 0, len(entries)+len(c.Env)), entries...)
	for i := range c.Env {
		if !replaced[i] {
			env = append(env, c.Env[i])
		}
	}
	c.Env = env
	c.rebuildEnvIndex()
}

func (c *container) removeEnv(name string) {
	if i, ok := c.envIndex[name]; ok {
		c.Env = slices.Delete(c.Env, i, i+1)
		c.rebuildEnvIndex()
	}
}

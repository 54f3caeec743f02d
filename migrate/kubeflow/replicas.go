package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// replicas reads the map of replica specs into roles, in the order of their ranks.
func (r *reader) replicas() {
	specs := r.spec.Get(r.job.replicas)
	keys := specs.Keys()
	if len(keys) == 0 {
		specs.Required("there is no gang without replicas")
		return
	}
	for _, key := range keys {
		if !slices.ContainsFunc(r.parts, func(p part) bool { return strings.EqualFold(p.name, key) }) {
			specs.Get(key).Invalid(fmt.Sprintf("%s has no such replicas; they are %s", r.Kind, strings.Join(r.partNames(), ", ")))
		}
	}
	for _, p := range r.parts {
		// The operators took any case until 1.8 (setTypeNameToCamelCase).
		at := slices.IndexFunc(keys, func(key string) bool { return strings.EqualFold(key, p.name) })
		if at < 0 {
			continue
		}
		if role, ok := r.role(p, specs.Get(keys[at])); ok {
			r.blueprint.Roles = append(r.blueprint.Roles, role)
		}
	}
	r.restartPolicies()
}

func (r *reader) partNames() []string {
	var names []string
	for _, p := range r.parts {
		names = append(names, p.name)
	}
	return names
}

// find is the role of the given name; nil when the gang has none.
func (r *reader) find(role string) *blueprint.Role {
	for i := range r.blueprint.Roles {
		if r.blueprint.Roles[i].Name == role {
			return &r.blueprint.Roles[i]
		}
	}
	return nil
}

// role reads one replica spec. It is false for one of no replicas, which is no part of
// the gang.
func (r *reader) role(p part, n ledger.Node) (blueprint.Role, bool) {
	role := blueprint.Role{Name: p.role, Set: p.set, Node: n.Get("template"), Keys: map[string]string{},
		Former: blueprint.Former{Prefix: r.blueprint.Name + "-" + strings.ToLower(p.name) + "-", Alone: true}}
	replicas := n.Get("replicas")
	role.Pods = ptr.Deref(replicas.Int32(), 1)
	if role.Pods < 0 {
		replicas.Invalid("must not be negative")
		return role, false
	}
	replicas.Carried("the workload's number of pods")
	if !n.Get("template").Exists() {
		n.Get("template").Required("the pods are made from it")
		return role, false
	}
	if !n.Get("template").Into(&role.Template) {
		return role, false
	}
	if role.Pods == 0 {
		n.Get("template").Lost("there are no pods of it", "")
		n.Get("restartPolicy").Ignore()
		return role, false
	}
	r.restarts = append(r.restarts, restart{p.role, n.Get("restartPolicy")})
	role.Node.At("spec", "restartPolicy").Ignore() // the operator overwrites it
	r.training(&role)
	return role, true
}

// training sees to the container that the operator set up: Rollcall takes the first
// when it is told nothing.
func (r *reader) training(role *blueprint.Role) {
	spec := &role.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == r.container })
	if at > 0 && role.Template.Annotations["kubectl.kubernetes.io/default-container"] != r.container {
		role.Keys[gang.AnnotationContainer] = r.container
	}
	c := &spec.Containers[max(at, 0)]
	r.rendezvousPort(role, c)
	r.overwritten(role, c, max(at, 0))
}

// rendezvousPort carries the port that the operator reads from the container.
func (r *reader) rendezvousPort(role *blueprint.Role, c *corev1.Container) {
	if r.portName == "" {
		return
	}
	for _, p := range c.Ports {
		if p.Name != r.portName || p.ContainerPort == r.port {
			continue
		}
		have, want := r.blueprint.Keys[gang.AnnotationPort], fmt.Sprint(p.ContainerPort)
		if have != "" && have != want {
			role.Node.Changed("annotation "+gang.AnnotationPort, fmt.Sprintf("a gang has one rendezvous port, and this part asks for %s where another asks for %s", want, have), "use one port")
			continue
		}
		r.blueprint.Keys[gang.AnnotationPort] = want
	}
}

// overwritten drops the variables that the operator set whatever the user wrote: they
// never had an effect, and would have one now.
func (r *reader) overwritten(role *blueprint.Role, c *corev1.Container, at int) {
	kept := c.Env[:0:0]
	for i, e := range c.Env {
		if !slices.Contains(r.overwrites, e.Name) {
			kept = append(kept, e)
			continue
		}
		role.Node.At("spec", "containers").Items()[at].Get("env").Items()[i].Changed("",
			fmt.Sprintf("left out: the operator overwrote %s, so this value never reached the program, and Rollcall would heed it", e.Name),
			"set it again on the new workload if it is what you want")
	}
	c.Env = kept
}

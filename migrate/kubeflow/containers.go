package kubeflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/migrate/blueprint"
	"rollcall.training/migrate/ledger"
)

// annotationDefaultContainer is kubectl's mark for a pod's main container, which Rollcall
// heeds too.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// containers sees to the containers of all roles: which of them trains, and what the
// operator gave them.
func (r *reader) containers() {
	for i := range r.blueprint.Roles {
		role := &r.blueprint.Roles[i]
		at := trainer(&role.Template.Spec, r.container)
		r.train(role, at)
		r.rendezvousPort(role, &role.Template.Spec.Containers[at])
		r.variables(role, at)
	}
}

// trainer is the index of the container that the operator sets up: the one of the given
// name, else the first.
func trainer(spec *corev1.PodSpec, name string) int {
	return max(0, slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }))
}

// train has the given container train: Rollcall takes the first when it is told nothing.
func (r *reader) train(role *blueprint.Role, at int) {
	name := role.Template.Spec.Containers[at].Name
	switch have, named := role.Template.Annotations[annotationDefaultContainer]; {
	case named && have != name, !named && at > 0:
		role.Keys[gang.AnnotationContainer] = name
	}
}

// rendezvousPort carries the port that the operator reads from the container.
func (r *reader) rendezvousPort(role *blueprint.Role, c *corev1.Container) {
	for i, p := range c.Ports {
		if r.portName == "" || p.Name != r.portName {
			continue
		}
		n := role.Node.At("spec", "containers").Item(trainer(&role.Template.Spec, r.container)).Get("ports").Item(i)
		r.carryPort(n, p.ContainerPort)
	}
}

// carryPort carries a part's rendezvous port: the first that a part names is the gang's.
func (r *reader) carryPort(n ledger.Node, port int32) {
	if r.asked == 0 {
		r.asked = port
	}
	r.ports = append(r.ports, n)
	switch {
	case port != r.asked:
		n.Changed("annotation "+gang.AnnotationPort, fmt.Sprintf("a gang has one rendezvous port, and another part asks for %d", r.asked), "use one port")
	case port == r.defaultPort:
		n.Carried("the framework's own port")
	default:
		r.blueprint.Keys[gang.AnnotationPort] = fmt.Sprint(port)
		n.Carried("annotation " + gang.AnnotationPort)
	}
}

// variables drops what the user wrote under the names of variables that are set anyway.
// What the operator overwrote never had an effect: Rollcall would heed it, or refuse it
// where the gang cannot do without its own.
func (r *reader) variables(role *blueprint.Role, at int) {
	spec, n := &role.Template.Spec, role.Node.Get("spec")
	owns := r.owns
	if r.pods() > 1 {
		owns = slices.Concat(r.owns, r.meets)
	}
	var sets []string
	if r.sets != nil {
		sets = r.sets(r, role.Name)
	}
	drop := func(c *corev1.Container, n ledger.Node, reason func(name string) string) {
		kept := c.Env[:0:0]
		for i, e := range c.Env {
			why := reason(e.Name)
			if why == "" {
				kept = append(kept, e)
				continue
			}
			do := ""
			if !slices.Contains(owns, e.Name) {
				do = "set it again on the new workload if it is what you want"
			}
			n.Get("env").Item(i).Changed("", "left out: "+why, do)
		}
		c.Env = kept
	}
	drop(&spec.Containers[at], n.Get("containers").Item(at), func(name string) string {
		switch {
		case slices.Contains(sets, name):
			return fmt.Sprintf("the operator overwrote %s, so this value never reached the program", name)
		case slices.Contains(owns, name):
			return fmt.Sprintf("Rollcall sets %s itself, by the gang's own addresses and ranks", name)
		}
		return ""
	})
	for i := range spec.InitContainers {
		drop(&spec.InitContainers[i], n.Get("initContainers").Item(i), func(name string) string {
			if slices.Contains(sets, name) || slices.Contains(owns, name) {
				return fmt.Sprintf("Rollcall sets %s in init containers too", name)
			}
			return ""
		})
	}
	if r.everywhere {
		r.sidecars(role, at, sets)
	}
}

// reference is a variable in a text, as the kubelet ($(NAME)) and shells write it.
var reference = regexp.MustCompile(`\$[({]?([A-Za-z_][A-Za-z0-9_]*)`)

// sidecars tells of the other containers that read a variable which the operator set in
// all of them.
func (r *reader) sidecars(role *blueprint.Role, at int, sets []string) {
	spec := &role.Template.Spec
	for i := range spec.Containers {
		if i == at {
			continue
		}
		var read []string
		blueprint.Texts(&spec.Containers[i], func(text *string) {
			for _, match := range reference.FindAllStringSubmatch(*text, -1) {
				if slices.Contains(sets, match[1]) && !slices.Contains(read, match[1]) {
					read = append(read, match[1])
				}
			}
		})
		if len(read) > 0 {
			role.Node.At("spec", "containers").Item(i).Note(
				fmt.Sprintf("it reads %s, which the operator set in all containers, and Rollcall sets in the one that trains", strings.Join(read, ", ")),
				fmt.Sprintf("set %s: %s,%s", gang.AnnotationContainer, spec.Containers[at].Name, spec.Containers[i].Name))
		}
	}
}

package kubeflow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/migrate/ir"
	"rollcall.training/internal/migrate/source"
)

// configureContainers selects the training container of each role, and converts its port and its
// variables.
func (r *reader) configureContainers() {
	for i := range r.gang.Roles {
		role := &r.gang.Roles[i]
		training := findContainer(&role.Template.Spec, r.containerName)
		r.gang.SetTrainingContainer(r.Context, role, role.Template.Spec.Containers[training].Name)
		for j, port := range role.Template.Spec.Containers[training].Ports {
			if r.portName != "" && port.Name == r.portName {
				ports := role.Source.At("spec", "containers").Item(training).Get("ports")
				r.convertPort(ports.Item(j), port.ContainerPort)
			}
		}
		r.removeInjectedVars(role, training)
	}
}

// findContainer returns the index of the container with the given name, or 0 if there is none. The
// operators select the training container in this way.
func findContainer(spec *corev1.PodSpec, name string) int {
	return max(0, ir.FindContainer(spec, name))
}

// convertPort converts the rendezvous port of a role. The first port applies to the gang.
func (r *reader) convertPort(f source.Field, port int32) {
	if r.rendezvousPort == 0 {
		r.rendezvousPort = port
	}
	if port == r.rendezvousPort {
		r.gang.ConvertPort(f, port)
		return
	}
	f.MarkChanged("annotation "+gang.AnnotationPort,
		fmt.Sprintf("a gang has one rendezvous port, and another role uses %d", r.rendezvousPort),
		"use the same port in all roles")
}

// removeInjectedVars removes variables of the user that the operator overwrote, and variables that
// Rollcall sets and does not accept from users.
func (r *reader) removeInjectedVars(role *ir.Role, training int) {
	overwritten := r.listOperatorVars(role)
	c := &role.Template.Spec.Containers[training]
	ir.RemoveOverwrittenVars(c, overwritten, role.FindEnvField)
	role.RemoveInjectedVars(r.gang.Inject(r.Context, role), c.Name)
	if r.operatorVarsInAllContainers {
		r.reportSidecarReads(role, training, overwritten)
	}
}

// reportSidecarReads reports sidecars that read a variable of the operator. Rollcall sets the
// variables only in the training container.
func (r *reader) reportSidecarReads(role *ir.Role, training int, operatorVars []string) {
	containers := role.Template.Spec.Containers
	for i := range containers {
		read := ""
		ir.VisitTexts(&containers[i], func(text *string) {
			for _, name := range operatorVars {
				for _, reference := range []string{"$" + name, "${" + name, "$(" + name} {
					if strings.Contains(*text, reference) {
						read = name
					}
				}
			}
		})
		if read != "" && i != training {
			role.Source.At("spec", "containers").Item(i).AddNote(
				"the sidecar reads "+read+"; the operator set the variables in all containers, and Rollcall sets "+
					"them only in the training container",
				fmt.Sprintf("set %s: %s,%s", gang.AnnotationContainers, containers[training].Name, containers[i].Name))
		}
	}
}

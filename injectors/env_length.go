package injectors

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// maxEnvBytes is MAX_ARG_STRLEN of Linux: 32 pages. It limits the length of NAME=value, including the
// terminating zero byte.
const maxEnvBytes = 32 * 4096

// maxTotalEnvBytes is the maximum size of the planned variables of all containers. etcd stores up to 1.5 MiB
// of an object (etcd server/embed, DefaultMaxRequestBytes), which also contains the manifest of the user.
const maxTotalEnvBytes = 1 << 20

// validateEnvLength returns a denial for each planned variable that exceeds maxEnvBytes. The containers
// would fail to start, and the error of the runtime does not name the variable. Without such a variable, it
// returns a denial if the variables of all containers exceed maxTotalEnvBytes.
func validateEnvLength(w gang.Workload, g gang.Gang, p plan.Plan) gang.Denials {
	var denials gang.Denials
	deny := func(format string, args ...any) {
		path := field.NewPath("spec", "parallelism")
		if w.StatefulSet != nil {
			path = replicasPath
		}
		denials = append(denials, gang.Denial{Error: field.Invalid(path, w.Ranks(), fmt.Sprintf(format, args...))})
	}
	total, containers := 0, len(g.Containers)+countUserInitContainers(w, p)
	for _, e := range p.Env {
		n := len(e.Name) + len("=") + len(e.Value) + 1
		if n > maxEnvBytes {
			deny("the variable %s would have %d bytes, but Linux limits a variable to %d bytes; "+
				"use fewer ranks with more processes each, or shorter names", e.Name, n, maxEnvBytes)
		}
		total += n * containers
	}
	if len(denials) == 0 && total > maxTotalEnvBytes {
		deny("the variables of %d containers would have %d bytes, but an object in etcd has room for %d bytes; "+
			"use fewer init containers, or fewer ranks with more processes each", containers, total, maxTotalEnvBytes)
	}
	return denials
}

// countUserInitContainers returns the number of init containers that get the variables of the plan. Those of
// the plan have their own.
func countUserInitContainers(w gang.Workload, p plan.Plan) (n int) {
	containers := w.Template().Spec.InitContainers
	for i := range containers {
		isContainer := func(planned plan.InitContainer) bool { return planned.Name == containers[i].Name }
		if !slices.ContainsFunc(p.InitContainers, isContainer) {
			n++
		}
	}
	return n
}

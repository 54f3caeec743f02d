package conformance

import (
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// referencePattern matches the references in the value of a variable.
var referencePattern = regexp.MustCompile(`\$\(([A-Za-z0-9_]+)\)`)

func (s suite) testReferences(t *testing.T, w gang.Workload) {
	CheckReferences(t, s.injectCopy(t, w))
}

// CheckReferences reports the variables of a workload that refer to a later variable of their container, or
// to none. The kubelet does not expand such references.
func CheckReferences(t *testing.T, w gang.Workload) {
	t.Helper()
	spec := &w.Template().Spec
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.Env {
			for _, reference := range referencePattern.FindAllStringSubmatch(c.Env[i].Value, -1) {
				isReferred := func(e corev1.EnvVar) bool { return e.Name == reference[1] }
				if !slices.ContainsFunc(c.Env[:i], isReferred) {
					t.Errorf("container %s: %s=%s does not refer to an earlier variable", c.Name, c.Env[i].Name, c.Env[i].Value)
				}
			}
		}
	}
}

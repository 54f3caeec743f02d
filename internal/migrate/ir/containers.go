package ir

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// acceleratorNames are parts of the names of resources that are accelerators.
var acceleratorNames = []string{"/gpu", "/mig-", "habana.ai/", "aws.amazon.com/neuron"}

// CountAccelerators returns the number of accelerators of a container, of any vendor. It returns 0
// for nil.
func CountAccelerators(c *corev1.Container) int64 {
	n := int64(0)
	if c == nil {
		return 0
	}
	for name, q := range c.Resources.Limits {
		if slices.ContainsFunc(acceleratorNames, func(part string) bool { return strings.Contains(string(name), part) }) {
			n += q.Value()
		}
	}
	return n
}

// ListContainers returns the init containers and the containers of a pod.
func ListContainers(spec *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

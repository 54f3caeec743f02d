package ir

import (
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// CountAccelerators returns the number of accelerators of a container, of any vendor. It returns 0
// for nil.
func CountAccelerators(c *corev1.Container) int64 {
	if c == nil {
		return 0
	}
	return gang.CountAccelerators(c.Resources)
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

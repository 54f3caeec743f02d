package ir

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

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

// NewClaimVolume returns a volume with a PersistentVolumeClaim.
func NewClaimVolume(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// FindContainer returns the index of the container with the given name, or -1.
func FindContainer(spec *corev1.PodSpec, name string) int {
	return slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
}

package vet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

func checkTemplateVariables(r *reporter, o *inputObject) {
	isRejected := o.labeled != nil && (o.decodeError != nil || o.labeled.denial != nil)
	if !isRejected {
		return
	}
	variable, path, found := o.FindTemplateVariable()
	if !found {
		return
	}
	r.add(path, "substitute the variables first, for example with envsubst",
		"contains the variable %s of a template", variable)
}

func checkPodTemplate(r *reporter, w *labeledWorkload) {
	spec := w.workload.Template().Spec
	r.checkContainers(w, podSpecPath+".initContainers", spec.InitContainers)
	r.checkContainers(w, podSpecPath+".containers", spec.Containers)
}

// checkContainers reports containers without an image, and mounts of volumes that do not exist.
func (r *reporter) checkContainers(w *labeledWorkload, path string, containers []corev1.Container) {
	for i, c := range containers {
		containerPath := fmt.Sprintf("%s[%d]", path, i)
		if c.Image == "" {
			r.add(containerPath+".image",
				"set the image; if the document is a patch of Kustomize, run kustomize build and vet its output",
				"is required, and the container %s has no image", c.Name)
		}
		for j, mount := range c.VolumeMounts {
			if !w.hasVolume(mount.Name) {
				r.add(fmt.Sprintf("%s.volumeMounts[%d].name", containerPath, j), "",
					"is %q, and the pod template has no volume with this name", mount.Name)
			}
		}
	}
}

// hasVolume reports whether the pods of the workload have a volume with the given name.
func (w *labeledWorkload) hasVolume(name string) bool {
	if set := w.workload.StatefulSet; set != nil {
		for _, claim := range set.Spec.VolumeClaimTemplates {
			if claim.Name == name {
				return true
			}
		}
	}
	return slices.ContainsFunc(w.workload.Template().Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

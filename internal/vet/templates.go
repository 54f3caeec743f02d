package vet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

func templateChecks() []Check {
	return []Check{
		{
			Code: CodeTemplateVariable, Severity: Error, checkObject: checkTemplateVariables,
			Title: "A manifest contains variables that were not substituted",
			Why: "Fields such as `parallelism: $NUM_NODES` belong to a template for envsubst. " +
				"Their values are strings, so the API server or the webhook rejects the workload. " +
				"vet reports a variable only if the workload is rejected.",
			Fix: "Substitute the variables first, for example with envsubst, and vet the output.",
		},
		{
			Code: CodeInvalidPodTemplate, Severity: Error, checkWorkload: checkPodTemplate,
			Title: "A container has no image, or mounts a volume that does not exist",
			Why: "The API server rejects the workload (pkg/apis/core/validation of Kubernetes). " +
				"vet does not repeat all of its rules. Use `kubectl apply --dry-run=server` for the others.",
			Fix: "Set the image, or add the volume to `spec.volumes` of the pod template. " +
				"If the document is a patch of Kustomize, run kustomize build and vet its output.",
		},
	}
}

func checkTemplateVariables(_ *input, o *inputObject) []issue {
	isRejected := o.labeled != nil && (o.decodeError != nil || o.labeled.denial != nil)
	if !isRejected {
		return nil
	}
	variable, path, found := o.FindTemplateVariable()
	if !found {
		return nil
	}
	return []issue{{
		field:   path,
		message: fmt.Sprintf("contains the variable %s of a template", variable),
		fix:     "substitute the variables first, for example with envsubst",
	}}
}

func checkPodTemplate(_ *input, w *labeledWorkload) []issue {
	spec := w.workload.Template().Spec
	issues := findInvalidContainers(w, podSpecPath+".initContainers", spec.InitContainers)
	return append(issues, findInvalidContainers(w, podSpecPath+".containers", spec.Containers)...)
}

// findInvalidContainers returns the containers without an image, and the mounts of volumes that do not
// exist.
func findInvalidContainers(w *labeledWorkload, path string, containers []corev1.Container) []issue {
	var issues []issue
	for i, c := range containers {
		containerPath := fmt.Sprintf("%s[%d]", path, i)
		if c.Image == "" {
			issues = append(issues, issue{
				field:   containerPath + ".image",
				message: fmt.Sprintf("is required, and the container %s has no image", c.Name),
				fix:     "set the image; if the document is a patch of Kustomize, run kustomize build and vet its output",
			})
		}
		for j, mount := range c.VolumeMounts {
			if !w.hasVolume(mount.Name) {
				issues = append(issues, issue{
					field:   fmt.Sprintf("%s.volumeMounts[%d].name", containerPath, j),
					message: fmt.Sprintf("is %q, and the pod template has no volume with this name", mount.Name),
				})
			}
		}
	}
	return issues
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

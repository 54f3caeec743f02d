package vet

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/command"
)

// trainingContainer is a training container as the webhook would admit it.
type trainingContainer struct {
	*corev1.Container
	// parsed is the container as the injectors read it.
	parsed gang.Container
	// path is the path of the container in the workload.
	path string
}

// commandPath returns the path of the command in the workload.
func (c trainingContainer) commandPath() string { return c.path + ".command" }

// envPath returns the path of the value of the i-th variable in the workload.
func (c trainingContainer) envPath(i int) string { return fmt.Sprintf("%s.env[%d].value", c.path, i) }

// parseCommand parses the command and arguments of the container.
func (c trainingContainer) parseCommand() command.Command { return command.Parse(c.Command, c.Args) }

// trainingContainers returns the training containers of the workload in the order of the pod spec.
func (w *labeledWorkload) trainingContainers() []trainingContainer {
	var out []trainingContainer
	containers := w.admitted.Template().Spec.Containers
	for i := range containers {
		for _, parsed := range w.gang.Containers {
			if parsed.Name == containers[i].Name {
				out = append(out, trainingContainer{
					Container: &containers[i],
					parsed:    parsed,
					path:      fmt.Sprintf("%s.containers[%d]", podSpecPath, i),
				})
			}
		}
	}
	return out
}

// maxPods returns the maximum number of pods of the workload.
func (w *labeledWorkload) maxPods() int32 { return w.gang.SizeBounds(w.gang.OwnMember()).Max }

// hasMultiplePods reports whether the gang can have more than one pod.
func (w *labeledWorkload) hasMultiplePods() bool { return w.gang.SizeBounds(w.gang.Members...).Max > 1 }

// volumeMountedAt returns the volume that a container mounts at a path, or nil. A volume of a
// volumeClaimTemplate has only a name.
func (w *labeledWorkload) volumeMountedAt(c *corev1.Container, mountPath string) *corev1.Volume {
	for _, mount := range c.VolumeMounts {
		if path.Clean(mount.MountPath) != mountPath {
			continue
		}
		volumes := w.admitted.Template().Spec.Volumes
		for i := range volumes {
			if volumes[i].Name == mount.Name {
				return &volumes[i]
			}
		}
		return &corev1.Volume{Name: mount.Name}
	}
	return nil
}

// literalValue returns the value of a variable. It returns false if the value is empty, has another
// source, or refers to other variables.
func literalValue(e corev1.EnvVar) (string, bool) {
	return e.Value, e.ValueFrom == nil && e.Value != "" && !command.HasEnvReference(e.Value)
}

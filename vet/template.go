package vet

import (
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// trainer is a container that trains, as it would be admitted.
type trainer struct {
	*corev1.Container
	// read is what the injectors know of it.
	read gang.Container
	// path is its field.
	path string
}

// trainers are the training containers of a gang's workload.
func (m *member) trainers() []trainer {
	var out []trainer
	containers := m.admitted.Template().Spec.Containers
	for i := range containers {
		for _, c := range m.gang.Containers {
			if c.Name == containers[i].Name {
				out = append(out, trainer{Container: &containers[i], read: c, path: fmt.Sprintf("%s.containers[%d]", templateSpec, i)})
			}
		}
	}
	return out
}

// pods is the largest number of pods that this workload can have, and all that the
// gang's workloads can have together.
func (m *member) pods() (own, all int32) {
	for _, o := range m.gang.Members {
		size := o.Size
		if e := m.gang.Elastic; e != nil && o.Role == m.gang.Framework.Elastic {
			size = e.Max
		}
		if o.Role == m.gang.Role {
			own = size
		}
		all += size
	}
	return own, all
}

// several reports whether the gang can have more than one pod.
func (m *member) several() bool {
	_, all := m.pods()
	return all > 1
}

// volume is the one that a container sees at a path; nil where there is none.
func (m *member) volume(c *corev1.Container, at string) *corev1.Volume {
	for _, mount := range c.VolumeMounts {
		if path.Clean(mount.MountPath) != at {
			continue
		}
		volumes := m.admitted.Template().Spec.Volumes
		for i := range volumes {
			if volumes[i].Name == mount.Name {
				return &volumes[i]
			}
		}
		return &corev1.Volume{Name: mount.Name} // of a volumeClaimTemplate
	}
	return nil
}

// value is a variable's value as it is written; false where it has none, comes from
// elsewhere, or refers to others.
func value(e corev1.EnvVar) (string, bool) {
	return e.Value, e.ValueFrom == nil && e.Value != "" && !refers(e.Value)
}

// sortedNames are the names of resources in a fixed order.
func sortedNames(l corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(l)) }

// command is what the container starts.
func (t trainer) command() command { return commandOf(t.Command, t.Args) }

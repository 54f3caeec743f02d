package vet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/progress"
)

// checkProgressFile finds a progress file that no program can write.
func checkProgressFile(r *reporter, w *labeledWorkload) {
	file := w.gang.StallRules.File
	if file == "" {
		return
	}
	for _, c := range w.trainingContainers() {
		if reason := explainReadOnly(w, c, file); reason != "" {
			r.add("metadata.annotations["+gang.AnnotationProgressFile+"]",
				"choose a path on a volume that the program can write",
				"container %s cannot write %s, because %s, so Rollcall never finds a stalled rank", c.Name, file, reason)
		}
	}
}

// checkProgressGroups finds groups of the progress pattern whose name has no meaning.
func checkProgressGroups(r *reporter, w *labeledWorkload) {
	for _, name := range w.gang.StallRules.Pattern.UnknownGroups() {
		r.add("metadata.annotations["+gang.AnnotationProgressPattern+"]",
			"use "+strings.Join(progress.Groups, ", ")+", or a group without a name",
			"the group %s has no meaning for Rollcall", name)
	}
}

// explainReadOnly returns why a container cannot write a file; empty if it can.
func explainReadOnly(w *labeledWorkload, c trainingContainer, file string) string {
	var mount *corev1.VolumeMount // the innermost above the file
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		isAbove := strings.HasPrefix(file, strings.TrimSuffix(m.MountPath, "/")+"/")
		if isAbove && (mount == nil || len(m.MountPath) > len(mount.MountPath)) {
			mount = m
		}
	}
	if mount == nil {
		if s := c.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
			return "its root file system is read-only"
		}
		return ""
	}
	if mount.ReadOnly || isReadOnlyVolume(w.volumeMountedAt(c.Container, strings.TrimSuffix(mount.MountPath, "/"))) {
		return "the volume " + mount.Name + " is read-only"
	}
	return ""
}

func isReadOnlyVolume(v *corev1.Volume) bool {
	return v != nil &&
		(v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil || v.Image != nil)
}

package vet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

const shmPath = "/dev/shm"

func checkShmExceedsMemory(r *reporter, w *labeledWorkload) {
	for _, c := range w.trainingContainers() {
		volume := w.volumeMountedAt(c.Container, shmPath)
		if volume == nil || volume.EmptyDir == nil || volume.EmptyDir.Medium != corev1.StorageMediumMemory {
			continue
		}
		size := volume.EmptyDir.SizeLimit
		if size == nil || c.parsed.Memory == 0 || size.Value() < c.parsed.Memory {
			continue
		}
		limit := c.Resources.Limits[corev1.ResourceMemory]
		field := podSpecPath + ".volumes[" + volume.Name + "].emptyDir.sizeLimit"
		if _, ok := w.target.Annotations[gang.AnnotationShmSize]; ok {
			field = "metadata.annotations[" + gang.AnnotationShmSize + "]"
		}
		r.add(field, "set a size below the limit, or remove it to get half of the limit",
			"/dev/shm can grow to %s, which counts toward the memory limit of container %s (%s)", size, c.Name, limit.String())
	}
}

func checkShmWithoutSizeLimit(r *reporter, w *labeledWorkload) {
	for _, c := range w.trainingContainers() {
		volume := w.volumeMountedAt(c.Container, shmPath)
		isMemory := volume != nil && volume.EmptyDir != nil && volume.EmptyDir.Medium == corev1.StorageMediumMemory
		if !isMemory || volume.EmptyDir.SizeLimit != nil || c.parsed.Memory == 0 {
			continue
		}
		limit := c.Resources.Limits[corev1.ResourceMemory]
		r.add(podSpecPath+".volumes["+volume.Name+"].emptyDir",
			"remove the volume, because Rollcall adds one with half of the limit, or set sizeLimit",
			"has no sizeLimit, so /dev/shm can use all memory of container %s (%s)", c.Name, limit.String())
	}
}

// acceleratorsOfNode is the number of accelerators of the smallest usual nodes for training, such as
// those with GB200. Others have 8.
const acceleratorsOfNode = 4

// usesWholeNode reports whether no other training pod fits on the node of the container.
func (c trainingContainer) usesWholeNode() bool {
	return c.parsed.Accelerators >= acceleratorsOfNode || c.parsed.HasTPU
}

func checkMemoryLimit(r *reporter, w *labeledWorkload) {
	if resources := w.admitted.Template().Spec.Resources; resources != nil {
		if _, hasPodLimit := resources.Limits[corev1.ResourceMemory]; hasPodLimit {
			return
		}
	}
	if w.isIdleLauncher() || w.admitted.Template().Spec.HostNetwork {
		return
	}
	for _, c := range w.trainingContainers() {
		sharesNode := c.parsed.Accelerators > 0 && !c.usesWholeNode()
		if sharesNode && c.parsed.Memory == 0 {
			r.add(c.path+".resources", "set resources.limits.memory",
				"container %s has no memory limit, so it and its /dev/shm can use all memory of the node", c.Name)
		}
	}
}

// isIdleLauncher reports whether the workload is a launcher that only waits for its workers.
func (w *labeledWorkload) isIdleLauncher() bool {
	return w.gang.HasSSHHosts() && w.gang.Role == gang.RoleLauncher && !w.gang.Launcher.RunAsWorker
}

func checkFewCPUs(r *reporter, w *labeledWorkload) {
	launcherSetsProcesses := w.gang.Framework.HasLauncher && len(w.gang.Members) > 1
	containers := w.trainingContainers()
	if launcherSetsProcesses || len(containers) == 0 {
		return
	}
	c, processes := containers[0], w.gang.Processes.Count
	if c.parsed.CPU == 0 || processes <= c.parsed.CPU {
		return
	}
	limit := c.Resources.Limits[corev1.ResourceCPU]
	r.add(c.path+".resources.limits[cpu]",
		fmt.Sprintf("raise the limit to at least %d, or set fewer processes with ", processes)+gang.AnnotationNprocPerNode,
		"%d training processes share %s CPUs, so every step waits for throttled processes", processes, limit.String())
}

package vet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func memoryChecks() []Check {
	return []Check{
		{
			Code: CodeDefaultShmSize, Severity: Warning, checkGang: checkDefaultShmSize,
			Title: "A container with accelerators has no volume at /dev/shm",
			Why: "Without a volume, the container runtime provides 64 MiB of shared memory. " +
				"That is too little for NCCL between the accelerators of a pod, and for data loaders with workers. " +
				"They fail with a bus error (kubernetes/kubernetes#28272).",
			Fix: "Remove `" + gang.AnnotationShmSize + ": none`, or set a size.",
		},
		{
			Code: CodeShmExceedsMemory, Severity: Warning, checkGang: checkShmExceedsMemory,
			Title: "/dev/shm can use all memory of the container",
			Why: "Files in a memory-backed volume count toward the memory limit of the container that writes them. " +
				"If /dev/shm is as large as the limit, the kernel kills the program before the volume is full.",
			Fix: "Set `" + gang.AnnotationShmSize + "` below the memory limit. " +
				"Or remove the annotation to get half of the limit.",
		},
		{
			Code: CodeShmWithoutSizeLimit, Severity: Info, checkGang: checkShmWithoutSizeLimit,
			Title: "The volume at /dev/shm has no sizeLimit",
			Why: "A memory-backed emptyDir without `sizeLimit` is as large as the memory limit of the pod (KEP-1967). " +
				"Its files count toward the memory limit of the container that writes them, " +
				"so the kernel can kill the program before the volume is full.",
			Fix: "Remove the volume, because Rollcall adds one with half of the memory limit. Or set its `sizeLimit`.",
		},
		{
			Code: CodeNoMemoryLimit, Severity: Info, checkGang: checkMemoryLimit,
			Title: "A training container that shares its node has no memory limit",
			Why: "A memory leak can then exhaust the memory of the node, and the kernel may kill processes of other gangs. " +
				"The memory-backed /dev/shm is limited only by the memory of the node. " +
				"vet reports containers with 1 to 3 accelerators. Pods with more accelerators or with hostNetwork " +
				"usually do not share their node. " +
				"With a limit, Rollcall sets the size of /dev/shm to half of the limit.",
			Fix: "Set `resources.limits.memory`. The request defaults to the limit.",
		},
		{
			Code: CodeFewCPUs, Severity: Info, checkGang: checkFewCPUs,
			Title: "The CPU limit is below the number of training processes",
			Why: "The processes of a container share its CPU limit. With less than one CPU for each process, " +
				"the kernel throttles the processes, and every training step waits for the slowest one.",
			Fix: "Raise the CPU limit to at least one CPU for each process, plus the CPUs that the data loaders need.",
		},
	}
}

const shmPath = "/dev/shm"

func checkDefaultShmSize(_ *input, w *labeledWorkload) []issue {
	usesHostShm := w.admitted.Template().Spec.HostIPC
	if w.denial != nil || usesHostShm {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		hasAccelerators := (c.parsed.Accelerators > 0 || c.parsed.HasResourceClaims) && !c.parsed.HasTPU
		if hasAccelerators && w.volumeMountedAt(c.Container, shmPath) == nil {
			issues = append(issues, issue{
				field: "metadata.annotations[" + gang.AnnotationShmSize + "]",
				message: fmt.Sprintf("container %s has accelerators, but /dev/shm has only the 64 MiB of the container runtime",
					c.Name),
				fix: "remove the annotation, or set a size",
			})
		}
	}
	return issues
}

func checkShmExceedsMemory(_ *input, w *labeledWorkload) []issue {
	var issues []issue
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
		issues = append(issues, issue{
			field: field,
			message: fmt.Sprintf("/dev/shm can grow to %s, which counts toward the memory limit of container %s (%s)",
				size, c.Name, limit.String()),
			fix: "set a size below the limit, or remove it to get half of the limit",
		})
	}
	return issues
}

func checkShmWithoutSizeLimit(_ *input, w *labeledWorkload) []issue {
	var issues []issue
	for _, c := range w.trainingContainers() {
		volume := w.volumeMountedAt(c.Container, shmPath)
		isMemory := volume != nil && volume.EmptyDir != nil && volume.EmptyDir.Medium == corev1.StorageMediumMemory
		if !isMemory || volume.EmptyDir.SizeLimit != nil || c.parsed.Memory == 0 {
			continue
		}
		limit := c.Resources.Limits[corev1.ResourceMemory]
		issues = append(issues, issue{
			field: podSpecPath + ".volumes[" + volume.Name + "].emptyDir",
			message: fmt.Sprintf("has no sizeLimit, so /dev/shm can use all memory of container %s (%s)",
				c.Name, limit.String()),
			fix: "remove the volume, because Rollcall adds one with half of the limit, or set sizeLimit",
		})
	}
	return issues
}

// acceleratorsOfNode is the number of accelerators of the smallest usual nodes for training, such as
// those with GB200. Others have 8.
const acceleratorsOfNode = 4

// usesWholeNode reports whether no other training pod fits on the node of the container.
func (c trainingContainer) usesWholeNode() bool {
	return c.parsed.Accelerators >= acceleratorsOfNode || c.parsed.HasTPU
}

func checkMemoryLimit(_ *input, w *labeledWorkload) []issue {
	if resources := w.admitted.Template().Spec.Resources; resources != nil {
		if _, hasPodLimit := resources.Limits[corev1.ResourceMemory]; hasPodLimit {
			return nil
		}
	}
	if w.isIdleLauncher() || w.admitted.Template().Spec.HostNetwork {
		return nil
	}
	var issues []issue
	for _, c := range w.trainingContainers() {
		sharesNode := c.parsed.Accelerators > 0 && !c.usesWholeNode()
		if sharesNode && c.parsed.Memory == 0 {
			issues = append(issues, issue{
				field: c.path + ".resources",
				message: fmt.Sprintf("container %s has no memory limit, so it and its /dev/shm can use all memory of the node",
					c.Name),
				fix: "set resources.limits.memory",
			})
		}
	}
	return issues
}

// isIdleLauncher reports whether the workload is a launcher that only waits for its workers.
func (w *labeledWorkload) isIdleLauncher() bool {
	return w.hasSSHHosts() && w.gang.Role == gang.RoleLauncher && !w.gang.Launcher.RunAsWorker
}

func checkFewCPUs(_ *input, w *labeledWorkload) []issue {
	launcherSetsProcesses := w.gang.Framework.HasLauncher && len(w.gang.Members) > 1
	containers := w.trainingContainers()
	if launcherSetsProcesses || len(containers) == 0 {
		return nil
	}
	c, processes := containers[0], w.gang.Processes.Count
	if c.parsed.CPU == 0 || processes <= c.parsed.CPU {
		return nil
	}
	limit := c.Resources.Limits[corev1.ResourceCPU]
	return []issue{{
		field: c.path + ".resources.limits[cpu]",
		message: fmt.Sprintf("%d training processes share %s CPUs, so every step waits for throttled processes",
			processes, limit.String()),
		fix: fmt.Sprintf("raise the limit to at least %d, or set fewer processes with %s",
			processes, gang.AnnotationNprocPerNode),
	}}
}

package vet

import (
	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

func ofMemory() []Check {
	return []Check{
		{
			Code: CodeSmallShm, Severity: Warning, gang: smallShm,
			Title: "Accelerators, and no volume at /dev/shm",
			Why:   "Without a volume the container runtime gives 64 MiB of shared memory, which is too little for NCCL between the accelerators of a pod, and for data loaders with workers: they end with a bus error (kubernetes/kubernetes#28272).",
			Fix:   "Remove `" + gang.AnnotationShm + ": none`, or name a size there.",
		},
		{
			Code: CodeShmExceedsMemory, Severity: Warning, gang: shmExceedsMemory,
			Title: "/dev/shm may take all of the container's memory",
			Why:   "What is written to a memory-backed volume counts to the memory of the container that writes it. A program that fills a /dev/shm of the size of the memory limit is killed before the volume is full.",
			Fix:   "Make `" + gang.AnnotationShm + "` smaller than the memory limit, or remove it for half of the limit.",
		},
		{
			Code: CodeNoMemoryLimit, Severity: Advice, gang: noMemoryLimit,
			Title: "A training container has no memory limit",
			Why:   "A leak then takes the memory of the node, and the kernel kills whichever process it likes, on every gang there. The memory-backed /dev/shm is bounded by the node alone; with a limit it gets half of that.",
			Fix:   "Set `resources.limits.memory`; the request follows.",
		},
		{
			Code: CodeFewCPUs, Severity: Advice, gang: fewCPUs,
			Title: "Fewer CPUs than training processes",
			Why:   "The processes of a pod share its CPU limit. With less than one each, the kernel stops them in turn, and every step waits for the slowest.",
			Fix:   "Raise the CPU limit to at least one for each process, and to what the data loaders need beside it.",
		},
	}
}

const shmPath = "/dev/shm"

func smallShm(_ *input, m *member) []remark {
	if m.denial != nil || m.admitted.Template().Spec.HostIPC { // which comes with the host's
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		if (c.read.Accelerators > 0 || c.read.Claims) && !c.read.TPU && m.volume(c.Container, shmPath) == nil {
			out = append(out, say("metadata.annotations["+gang.AnnotationShm+"]", "container %s has accelerators, and the 64 MiB of /dev/shm that the runtime gives", c.Name).
				do("remove the annotation, or name a size in it")...)
		}
	}
	return out
}

func shmExceedsMemory(_ *input, m *member) []remark {
	if m.denial != nil {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		v := m.volume(c.Container, shmPath)
		if v == nil || v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory || v.EmptyDir.SizeLimit == nil {
			continue
		}
		if size := v.EmptyDir.SizeLimit; c.read.Memory > 0 && size.Value() >= c.read.Memory {
			limit := c.Resources.Limits[corev1.ResourceMemory]
			field := templateSpec + ".volumes[" + v.Name + "].emptyDir.sizeLimit"
			if _, ok := m.read.Annotations[gang.AnnotationShm]; ok {
				field = "metadata.annotations[" + gang.AnnotationShm + "]"
			}
			out = append(out, say(field, "/dev/shm of %s counts to the memory of container %s, whose limit is %s", size, c.Name, limit.String()).
				do("make it smaller than the limit, or remove it for half of the limit")...)
		}
	}
	return out
}

func noMemoryLimit(_ *input, m *member) []remark {
	if r := m.admitted.Template().Spec.Resources; r != nil {
		if _, ok := r.Limits[corev1.ResourceMemory]; ok {
			return nil // of the whole pod
		}
	}
	if m.gang.Role == gang.RoleLauncher && len(m.gang.Members) > 1 && !m.gang.Launch.Self {
		return nil // it waits for those that train
	}
	var out []remark
	for _, c := range m.trainers() {
		if c.read.Memory == 0 {
			out = append(out, say(c.path+".resources", "container %s has no memory limit: it can take all of its node's, and so can its /dev/shm", c.Name).
				do("set resources.limits.memory")...)
		}
	}
	return out
}

func fewCPUs(_ *input, m *member) []remark {
	if m.gang.Framework.Launches && len(m.gang.Members) > 1 {
		return nil // the processes of a host are the launcher's to say
	}
	trainers := m.trainers()
	if len(trainers) == 0 {
		return nil
	}
	c, n := trainers[0], m.gang.Processes.Count
	if c.read.CPU == 0 || n <= c.read.CPU {
		return nil
	}
	limit := c.Resources.Limits[corev1.ResourceCPU]
	return say(c.path+".resources.limits[cpu]", "%d training processes share %s CPUs", n, limit.String()).
		do("raise the limit to %d or more, or set %s", n, gang.AnnotationNproc)
}

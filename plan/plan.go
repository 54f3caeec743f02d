package plan

import corev1 "k8s.io/api/core/v1"

// Plan is what a workload needs. The zero value changes nothing.
type Plan struct {
	// Env are the variables of every training container and every init container, in this order. A
	// value can refer to an earlier variable by $(NAME).
	Env []Env
	// PodLabels are labels of the pod template.
	PodLabels []Label
	// PodAnnotations are annotations of the pod template.
	PodAnnotations []Label
	// SchedulerName is the scheduler of the pods; empty keeps that of the user.
	SchedulerName string
	// SchedulingGroup is the PodGroup of the pods; empty for none.
	SchedulingGroup string
	// Volumes are volumes of the pod template and their mounts in the training containers.
	Volumes []Volume
	// InitContainers are appended to the existing init containers.
	InitContainers []InitContainer
	// Command is the command of the first training container if the user has set neither a command nor
	// arguments; empty means the command of the image.
	Command []string
	// LivenessProbe and ReadinessProbe are probes of the training containers, each unless the user has set a probe of
	// this kind. All fields with a default of the API server must be set.
	LivenessProbe, ReadinessProbe *corev1.Probe
	// RestartInPlace restarts failed training containers of a Job within their pods.
	RestartInPlace bool
	// JobFailureLimit is how often in a row a rank of a Job may fail (gang.RestartRules). It replaces the
	// limits of the Job, because Rollcall counts restarts of the gang. Limits of the user are kept. 0
	// keeps all limits.
	JobFailureLimit int32
	// CompleteWithFirstPod completes a Job when its first pod succeeds, unless the user has set a
	// successPolicy (KEP-3998, GA in 1.33).
	CompleteWithFirstPod bool
	// DNSSearches are DNS search domains of the pods.
	DNSSearches []string
	// Tolerations are tolerations of the pods, each unless the user tolerates the taint. They need key and effect.
	Tolerations []corev1.Toleration
	// Resources are extended resources of the training containers, as limit and request.
	Resources []Resource
	// Programs are the programs that the image must contain. They document the plan: the engine cannot
	// read an image.
	Programs []Program
	// Children are the objects that the reconciler creates for the gang.
	Children Children
}

// Label is a label or an annotation of the pod template.
type Label struct {
	Name, Value string
	Policy      ConflictPolicy
	// Disables describes what the label disables, for a warning, if the labels or annotations of the pod
	// template have one of the prefixes in DisabledPrefixes. Can be empty.
	Disables         string
	DisabledPrefixes []string
}

// Volume is a volume with its mounts in the training containers. A volume without mounts is for init
// containers.
type Volume struct {
	corev1.Volume
	// Mounts need no volume name.
	Mounts []corev1.VolumeMount
	// Policy applies if a container has another volume at the path of a mount.
	Policy ConflictPolicy
}

// InitContainer is an init container. It has the image, the security context, the CPU and the memory
// of the first training container, which are known to exist and to be allowed.
type InitContainer struct {
	Name string
	// Image replaces the image of the first training container; empty keeps it. An existing container keeps its
	// image, because a new release must not change the pods of a running gang.
	Image   string
	Command []string
	// Env are the only variables of the container.
	Env    []Env
	Mounts []corev1.VolumeMount
	// Sidecar is true for a container that runs until the other containers terminate (KEP-753, GA in
	// 1.33).
	Sidecar bool
}

// Resource is an amount of an extended resource.
type Resource struct {
	Name  corev1.ResourceName
	Count int64
}

// Program is a program that the injected containers run from the user's image.
type Program struct {
	Name string
	// Package is the package of Debian that contains the program.
	Package string
	// Absence is the consequence of an image without the program.
	Absence string
}

// Children are the objects that a gang needs in addition to its workloads. Admission must not have
// side effects, so the reconciler creates them.
type Children struct {
	// Service is the headless Service; nil if the gang does not need a Service.
	Service *Service
	// KeyPairSecret is the name of the Secret with the SSH key pair of the gang; empty if the gang does
	// not need keys.
	KeyPairSecret string
	// HostOrder is the name of the ConfigMap with the order of a launcher's hosts; empty if the gang does not need it.
	HostOrder string
	// PodGroup is the name of the PodGroup; empty if the gang does not need a PodGroup, or if the user provides it.
	PodGroup string
}

// Service is a headless Service. It publishes the DNS names of ranks before they are ready, because
// ranks need each other to become ready.
type Service struct {
	Name     string
	PortName string
	Port     int32
	// Selector selects the gang's pods whose names the Service publishes.
	Selector map[string]string
}

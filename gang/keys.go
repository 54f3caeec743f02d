package gang

import "strings"

// Prefix is the domain of every label and annotation that Rollcall reads or
// writes on a user's objects.
const Prefix = "rollcall.training/"

// Labels and annotations that a user writes on the workload's own metadata.
const (
	// LabelFramework is the opt-in. The API server's objectSelector keys on it, so
	// an object without it never reaches Rollcall.
	LabelFramework = Prefix + "framework"
	// LabelGang names the gang; the zero value means the workload's name.
	LabelGang = Prefix + "gang"
	// LabelRole is the part that this workload plays in its framework.
	LabelRole = Prefix + "role"
	// LabelInject set to "false" switches Rollcall off for one object.
	LabelInject = Prefix + "inject"

	// AnnotationContainer lists the containers that train, separated by commas.
	AnnotationContainer = Prefix + "container"
	// AnnotationGPUs is the number of accelerators of each pod.
	AnnotationGPUs = Prefix + "gpus"
	// AnnotationGPUResource is the extended resource that AnnotationGPUs counts.
	AnnotationGPUResource = Prefix + "gpu-resource"
	// AnnotationNproc is the number of training processes in each pod.
	AnnotationNproc = Prefix + "nproc-per-node"
	// AnnotationPort is the TCP port of the rendezvous.
	AnnotationPort = Prefix + "port"
	// AnnotationShm is the size of /dev/shm, or "none".
	AnnotationShm = Prefix + "shm-size"
)

// Labels and annotations that Rollcall writes back. A user never sets them.
const (
	// LabelPhase holds the gang's [Phase], for kubectl get -L.
	LabelPhase = Prefix + "phase"
	// AnnotationStatus holds one line about the gang's state.
	AnnotationStatus = Prefix + "status"
	// AnnotationInjected holds what was added at admission, and by which injector.
	AnnotationInjected = Prefix + "injected"
)

// KeyKind tells whether a key is read from labels or from annotations.
type KeyKind string

// The two places a key can live in.
const (
	KindLabel      KeyKind = "label"
	KindAnnotation KeyKind = "annotation"
)

// Key documents one label or annotation that this release understands. The
// reference pages and the README's table are generated from [Keys], and unknown
// keys are found by comparison with it.
type Key struct {
	// Name is the full key, with its prefix.
	Name string
	// Kind is where the key is read from.
	Kind KeyKind
	// Values describes the allowed values.
	Values string
	// Default describes what holds when the key is absent.
	Default string
	// Meaning is one sentence for users.
	Meaning string
}

// Keys lists every key of this release, the opt-in first.
func Keys() []Key {
	return []Key{
		{Name: LabelFramework, Kind: KindLabel, Values: "a framework's name", Default: "required",
			Meaning: "Makes the workload a gang of this framework."},
		{Name: LabelGang, Kind: KindLabel, Values: "a DNS-1035 name of at most 63 characters", Default: "the workload's name",
			Meaning: "Names the gang, and with it the headless Service in which its ranks find each other."},
		{Name: LabelRole, Kind: KindLabel, Values: "one of the framework's roles", Default: "the framework's first role",
			Meaning: "The part that this workload plays."},
		{Name: LabelInject, Kind: KindLabel, Values: "`true`, `false`", Default: "`true`",
			Meaning: "`false` switches Rollcall off for this object."},
		{Name: AnnotationContainer, Kind: KindAnnotation, Values: "container names, separated by commas",
			Default: "`kubectl.kubernetes.io/default-container` of the pod template, else the first container",
			Meaning: "Which containers train. Init containers always get the environment too."},
		{Name: AnnotationGPUs, Kind: KindAnnotation, Values: "a whole number from 1 to 1024", Default: "none",
			Meaning: "Accelerators for each training container, as limit and request."},
		{Name: AnnotationGPUResource, Kind: KindAnnotation, Values: "an extended resource name", Default: "`nvidia.com/gpu`",
			Meaning: "The resource that `gpus` counts."},
		{Name: AnnotationNproc, Kind: KindAnnotation, Values: "`auto`, `gpu`, `cpu`, or a whole number from 1 to 1024", Default: "`auto`",
			Meaning: "Training processes in each pod. `auto` takes the accelerator limit, else the CPU limit, else 1."},
		{Name: AnnotationPort, Kind: KindAnnotation, Values: "a port from 1024 to 65535", Default: "the framework's",
			Meaning: "The TCP port of the rendezvous on rank 0."},
		{Name: AnnotationShm, Kind: KindAnnotation, Values: "a quantity above 0, or `none`",
			Default: "half the memory limit, when there is one; else no limit of its own",
			Meaning: "Size of the memory-backed /dev/shm."},
		{Name: LabelPhase, Kind: KindLabel, Meaning: "The gang's phase, for `kubectl get jobs -L`."},
		{Name: AnnotationStatus, Kind: KindAnnotation, Meaning: "One line about the gang's state."},
		{Name: AnnotationInjected, Kind: KindAnnotation, Meaning: "What was added at admission, and by which injector."},
	}
}

// short is a key's name without its prefix, as users speak of it.
func short(key string) string { return strings.TrimPrefix(key, Prefix) }

// WrittenBack reports whether Rollcall itself writes the key.
func WrittenBack(name string) bool {
	return name == LabelPhase || name == AnnotationStatus || name == AnnotationInjected
}

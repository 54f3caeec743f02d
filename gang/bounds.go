package gang

// Bounds of the numbers that a user can write. A number beyond them is a mistake, and would cost
// memory or never work. Readers of other formats use the same bounds, so that they produce only
// valid workloads.
const (
	// MaxPods is the maximum number of pods of a workload and of a role. It is the API server's
	// maximum for the parallelism of an Indexed Job (kubernetes pkg/apis/batch/validation,
	// maxParallelismForIndexedJob).
	MaxPods = 100_000
	// MaxRoles is the maximum number of roles of a gang. Each role is a workload that a person writes.
	MaxRoles = 64
	// MaxProcessesPerPod is the maximum number of accelerators, training processes or slots of a
	// pod. The largest coherent machines on sale have 72 accelerators in one domain. A number more
	// than ten times as large is a mistake, such as bytes instead of devices.
	MaxProcessesPerPod = 1024
	// MinPort is the minimum port of the rendezvous. The rendezvous can run as any user, so
	// privileged ports are not allowed.
	MinPort = 1024
	// MaxPort is the maximum TCP port.
	MaxPort = 65535
	// MaxRestarts is the maximum number in [AnnotationMaxRestarts] and [AnnotationMaxDisruptions]. A gang
	// that failed that often never succeeds.
	MaxRestarts = 1000
	// MaxContainers is the maximum number of containers and init containers of a pod template. A pod
	// with more containers does not start on any node.
	MaxContainers = 256
	// MaxCachedBytes is the maximum memory of a workload in a manager by [MeasureMemory]. Every manager keeps
	// all gangs in memory.
	MaxCachedBytes = 256 << 10
	// MaxNewBytes is the maximum of an injected workload by [Workload.CheckSize]. The rest of MaxCachedBytes is
	// for the status and the conditions that are written later.
	MaxNewBytes = 224 << 10
	// MaxCachedText is the length in bytes to which a manager truncates a value, an argument or a command
	// of a workload that exceeds MaxNewBytes otherwise. A longer text is a script or data.
	MaxCachedText = 1024
	// MaxAnnotationLength is the maximum length in bytes of an annotation that users set.
	MaxAnnotationLength = 4096
	// MaxWrittenAnnotationLength is the maximum length in bytes of an annotation that only Rollcall
	// writes. It is the API server's maximum for all annotations of an object (k8s.io/apimachinery
	// pkg/api/validation, TotalAnnotationSizeLimitB).
	MaxWrittenAnnotationLength = 256 << 10
)

// Bounds of what users read. An object of 3 MiB can contain a million mistakes, and each of them would
// be repeated in the response.
const (
	// MaxErrors is the maximum number of errors of an object, and of warnings about unknown keys.
	MaxErrors = 20
	// maxListedValues is the maximum number of allowed values in an error.
	maxListedValues = 10
	// maxShownLength is the maximum length in bytes of a value, a path or a detail in an error.
	maxShownLength = 1024
)

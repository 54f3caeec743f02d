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
	// MaxRestarts is the maximum value of [AnnotationMaxRestarts]. A gang that failed that often
	// never succeeds.
	MaxRestarts = 1000
)

package gang

import (
	"slices"
	"strings"
)

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

	// AnnotationRoles is the size of every role of a gang of several workloads, the
	// same on each of its members.
	AnnotationRoles = Prefix + "roles"
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
	// AnnotationElastic is the smallest and largest number of pods of a gang whose
	// size may change while it runs.
	AnnotationElastic = Prefix + "elastic"
	// AnnotationMPI is the MPI implementation of the image.
	AnnotationMPI = Prefix + "mpi-implementation"
	// AnnotationSlots is the number of processes that a launcher starts on each host.
	AnnotationSlots = Prefix + "slots"
	// AnnotationLauncherRuns makes the launcher's own pod one of the hosts.
	AnnotationLauncherRuns = Prefix + "launcher-runs-worker"
)

// Annotations about the life of a gang.
const (
	// AnnotationRestartPolicy says what becomes of a gang when a rank fails.
	AnnotationRestartPolicy = Prefix + "restart-policy"
	// AnnotationMaxRestarts is how often a gang is restarted.
	AnnotationMaxRestarts = Prefix + "max-restarts"
	// AnnotationFinalCodes lists exit codes after which a gang does not start anew.
	AnnotationFinalCodes = Prefix + "final-exit-codes"
	// AnnotationSuccessPolicy says whose end is the end of the gang.
	AnnotationSuccessPolicy = Prefix + "success-policy"
	// AnnotationCleanPods says which pods of an ended gang are taken away.
	AnnotationCleanPods = Prefix + "clean-pod-policy"
	// AnnotationStartTimeout is how long a gang may take until all ranks are ready.
	AnnotationStartTimeout = Prefix + "start-timeout"
)

// Labels of a gang's pods beside those of its workload.
const (
	// LabelRankOffset, on a pod template, is the first rank of a workload that does not
	// hold rank 0: its pods' ranks are their indexes plus this.
	LabelRankOffset = Prefix + "rank-offset"
	// LabelRank, on a pod with LabelRankOffset, is the pod's rank in its gang. It is put
	// there when the pod is created (docs/adr/0011).
	LabelRank = Prefix + "rank"
	// LabelAttempt is the number of restarts of the gang before the pod was made. The
	// pods of a StatefulSet, whose template changes only with a rollout, have none.
	LabelAttempt = Prefix + "attempt"
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
	// Live is true when a change is heeded while the gang runs. What follows from all
	// others is in the template of a Job, and stays.
	Live bool
}

// Keys lists every key of this release, the opt-in first.
func Keys() []Key {
	return []Key{
		{Name: LabelFramework, Kind: KindLabel, Values: "a framework's name", Default: "required",
			Meaning: "Makes the workload a gang of this framework."},
		{Name: LabelGang, Kind: KindLabel, Values: "a DNS-1035 name of at most 63 characters", Default: "the workload's name",
			Meaning: "Names the gang, and with it the headless Service in which its ranks find each other."},
		{Name: LabelRole, Kind: KindLabel, Values: "one of the framework's roles", Default: "the framework's default role",
			Meaning: "The part that this workload plays."},
		{Name: LabelInject, Kind: KindLabel, Values: "`true`, `false`", Default: "`true`",
			Meaning: "`false` switches Rollcall off for this object."},
		{Name: AnnotationRoles, Kind: KindAnnotation, Values: "`role=pods`, separated by commas, such as `launcher=1,worker=4`",
			Default: "this workload alone",
			Meaning: "The size of every role of a gang of several workloads, the same on each of them. Each is then named after the gang and its role: `train-launcher`, `train-worker`."},
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
		{Name: AnnotationElastic, Kind: KindAnnotation, Values: "`min:max`, numbers of pods", Default: "off",
			Meaning: "The gang trains on with any number of pods from min to max; for frameworks that can."},
		{Name: AnnotationMPI, Kind: KindAnnotation, Values: "`openmpi`, `intel`, `mpich`", Default: "`openmpi`",
			Meaning: "The MPI of the image: it decides the form of /etc/mpi/hostfile. The variables of all of them are set."},
		{Name: AnnotationSlots, Kind: KindAnnotation, Values: "a whole number from 1 to 1024",
			Default: "`nproc-per-node` where it is a number, else 1 beside workers and what `auto` finds in a launcher alone",
			Meaning: "Processes that the launcher starts on each host."},
		{Name: AnnotationLauncherRuns, Kind: KindAnnotation, Values: "`true`, `false`", Default: "`false`; `true` for a launcher alone",
			Meaning: "The launcher's own pod is one of the hosts, the first."},
		{Name: AnnotationRestartPolicy, Kind: KindAnnotation, Live: true, Values: "`gang`, `pod`, `never`", Default: "`gang`; `pod` for an elastic gang; `never` for a Job with `backoffLimit: 0`",
			Meaning: "When a rank fails: all ranks start anew together, the Job's own rules hold, or the gang has failed."},
		{Name: AnnotationMaxRestarts, Kind: KindAnnotation, Live: true, Values: "a whole number from 0 to 1000", Default: "the Job's `backoffLimit` where it is neither 6 nor 2147483647, else 3",
			Meaning: "How often the gang is restarted before it has failed. Ranks that fail together count once."},
		{Name: AnnotationFinalCodes, Kind: KindAnnotation, Live: true, Values: "exit codes and ranges of them, separated by commas, such as `1-127`", Default: "none",
			Meaning: "When the rank that fell first ended with one of them, the gang has failed and is not restarted."},
		{Name: AnnotationSuccessPolicy, Kind: KindAnnotation, Live: true, Values: "`all`, `rank0`, or a role of the gang", Default: "the framework's: the role that decides; the first worker of tensorflow; else `all`",
			Meaning: "Whose end is the end of the gang."},
		{Name: AnnotationCleanPods, Kind: KindAnnotation, Live: true, Values: "`running`, `all`, `none`", Default: "`running`",
			Meaning: "Which pods of an ended gang are taken away: those that still run, all, or none."},
		{Name: AnnotationStartTimeout, Kind: KindAnnotation, Live: true, Values: "a duration from 1s, such as `30m`", Default: "off",
			Meaning: "How long the gang may take until all ranks are ready, before it is restarted or has failed."},
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

// Live reports whether a change of the key is heeded while the gang runs.
func Live(name string) bool {
	return slices.ContainsFunc(Keys(), func(k Key) bool { return k.Live && k.Name == name })
}

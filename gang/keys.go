package gang

import (
	"fmt"
	"slices"
	"strings"

	"rollcall.training/internal/progress"
)

// Prefix is the domain of all labels and annotations of Rollcall.
const Prefix = "rollcall.training/"

// Labels and annotations that a user sets in the metadata of a workload.
const (
	// LabelFramework opts a workload in. It is the objectSelector of the webhooks, so the API server
	// sends Rollcall only objects with the label.
	LabelFramework = Prefix + "framework"
	// LabelGang is the name of the gang; the default is the name of the workload.
	LabelGang = Prefix + "gang"
	// LabelRole is the role of the workload in the gang.
	LabelRole = Prefix + "role"
	// LabelInject set to "false" opts a workload out.
	LabelInject = Prefix + "inject"

	// AnnotationRoles is the size of every role of a multi-workload gang, the same on all members.
	AnnotationRoles = Prefix + "roles"
	// AnnotationContainers lists the training containers, separated by commas.
	AnnotationContainers = Prefix + "containers"
	// AnnotationGPUs is the number of accelerators of each training container.
	AnnotationGPUs = Prefix + "gpus"
	// AnnotationGPUResource is the extended resource that AnnotationGPUs counts.
	AnnotationGPUResource = Prefix + "gpu-resource"
	// AnnotationNprocPerNode is the number of training processes in each pod.
	AnnotationNprocPerNode = Prefix + "nproc-per-node"
	// AnnotationPort is the TCP port of the rendezvous.
	AnnotationPort = Prefix + "port"
	// AnnotationShmSize is the size of /dev/shm, or "none".
	AnnotationShmSize = Prefix + "shm-size"
	// AnnotationElastic is the minimum and maximum number of pods of an elastic gang.
	AnnotationElastic = Prefix + "elastic"
	// AnnotationMPIImplementation is the MPI implementation of the image.
	AnnotationMPIImplementation = Prefix + "mpi-implementation"
	// AnnotationSlotsPerWorker is the number of processes that a launcher starts on each host.
	AnnotationSlotsPerWorker = Prefix + "slots-per-worker"
	// AnnotationRunLauncherAsWorker makes the launcher's own pod one of the hosts.
	AnnotationRunLauncherAsWorker = Prefix + "run-launcher-as-worker"
	// AnnotationLaunch is how the launcher starts processes in other pods.
	AnnotationLaunch = Prefix + "launch"
	// AnnotationHostfile is the path of a file with the addresses of all ranks.
	AnnotationHostfile = Prefix + "hostfile"
	// AnnotationPublishedRanks determines which ranks have a DNS name.
	AnnotationPublishedRanks = Prefix + "published-ranks"
	// AnnotationCompatibility names the former system whose names the pods also have.
	AnnotationCompatibility = Prefix + "compatibility"
)

// Annotations for the lifecycle of a gang.
const (
	// AnnotationRestartPolicy is the reaction to a failed rank.
	AnnotationRestartPolicy = Prefix + "restart-policy"
	// AnnotationMaxRestarts is the maximum number of restarts of the gang.
	AnnotationMaxRestarts = Prefix + "max-restarts"
	// AnnotationMaxDisruptions is the maximum number of disruptions after which the gang restarts.
	AnnotationMaxDisruptions = Prefix + "max-disruptions"
	// AnnotationNonRetriableExitCodes lists exit codes after which the gang is not restarted.
	AnnotationNonRetriableExitCodes = Prefix + "non-retriable-exit-codes"
	// AnnotationSuccessPolicy determines which ranks must succeed for the gang to succeed.
	AnnotationSuccessPolicy = Prefix + "success-policy"
	// AnnotationCleanPodPolicy determines which pods are deleted after the gang finishes.
	AnnotationCleanPodPolicy = Prefix + "clean-pod-policy"
	// AnnotationStartTimeout is the maximum time until all ranks are ready.
	AnnotationStartTimeout = Prefix + "start-timeout"
	// AnnotationScheduleTimeout is the maximum time for which a gang holds nodes while some of its ranks have none.
	AnnotationScheduleTimeout = Prefix + "schedule-timeout"
	// AnnotationRestartOnNodeLoss determines whether a gang restarts while pods of a lost node may still run.
	AnnotationRestartOnNodeLoss = Prefix + "restart-on-node-loss"
	// AnnotationAvoidNodes determines whether the next attempt avoids the nodes on which ranks failed.
	AnnotationAvoidNodes = Prefix + "avoid-nodes"
	// AnnotationFailureOutput determines whether the status contains the output of a failed program.
	AnnotationFailureOutput = Prefix + "failure-output"
	// AnnotationProgressFile is the file that a program writes while it makes progress.
	AnnotationProgressFile = Prefix + "progress-file"
	// AnnotationProgressPattern matches the lines that rank 0 prints while it makes progress.
	AnnotationProgressPattern = Prefix + "progress-pattern"
	// AnnotationPreflight names the init container that checks the node of each rank.
	AnnotationPreflight = Prefix + "preflight"
	// AnnotationStallTimeout is how long a rank may leave the progress file unwritten, or print no line that matches the
	// pattern.
	AnnotationStallTimeout = Prefix + "stall-timeout"
	// AnnotationStallAction is the reaction to a rank that exceeds the stall timeout.
	AnnotationStallAction = Prefix + "stall-action"
)

// AnnotationScheduler selects the scheduler that places all ranks of the gang or none.
const AnnotationScheduler = Prefix + "scheduler"

// AnnotationQueue is the LocalQueue of Kueue in which a gang of several workloads waits as one Workload.
const AnnotationQueue = Prefix + "queue"

// AnnotationProfile selects a profile of the policy of the cluster.
const AnnotationProfile = Prefix + "profile"

// Labels of the pods of a gang, in addition to the labels of its workloads.
const (
	// LabelRankOffset, on a pod template, is the rank of the first pod of a workload that does not
	// include rank 0. The rank of a pod is its index plus the offset.
	LabelRankOffset = Prefix + "rank-offset"
	// LabelRank, on a pod with LabelRankOffset, is the rank of the pod. The webhook sets it when the
	// pod is created (docs/adr/0003).
	LabelRank = Prefix + "rank"
	// LabelAttempt is the number of the gang's attempt when the pod was created. Pods of a StatefulSet
	// do not have the label, because a changed template would start a rollout.
	LabelAttempt = Prefix + "attempt"
)

// Labels and annotations that only Rollcall writes.
const (
	// LabelPhase is the phase of the gang, for kubectl get -L.
	LabelPhase = Prefix + "phase"
	// LabelSize is the number of ranks of the gang; the maximum if it is elastic.
	LabelSize = Prefix + "size"
	// LabelAccelerators is the number of accelerators of all pods of the workload.
	LabelAccelerators = Prefix + "accelerators"
	// AnnotationStatus is the status of the gang as JSON.
	AnnotationStatus = Prefix + "status"
	// AnnotationSuspendedBy is who suspends a workload that Rollcall has suspended: [SuspendedByRollcall], or
	// [SuspendedByUser] after a user took over the suspension.
	AnnotationSuspendedBy = Prefix + "suspended-by"
	// AnnotationInjected records what admission injected.
	AnnotationInjected = Prefix + "injected"
)

// The values of [AnnotationSuspendedBy].
const (
	SuspendedByRollcall = "rollcall"
	SuspendedByUser     = "user"
)

// KeyKind is the kind of a key: label or annotation.
type KeyKind string

// The kinds of keys.
const (
	KeyKindLabel      KeyKind = "label"
	KeyKindAnnotation KeyKind = "annotation"
)

// Key documents one label or annotation of this release. The reference page is generated from
// [Keys], and Parse warns about keys under [Prefix] that are not in the list.
type Key struct {
	// Name is the key including the prefix.
	Name string
	// Kind is the kind of the key.
	Kind KeyKind
	// Values describes the allowed values; empty for a key that only Rollcall writes.
	Values string
	// Default describes the behavior without the key.
	Default string
	// Description is one sentence for users.
	Description string
	// Mutable is true if a changed value has an effect while the gang runs. The other keys determine
	// the pod template, which is immutable in a Job.
	Mutable bool
}

var (
	written = writtenKeys()
	keys    = slices.Concat(workloadKeys(), podKeys(), launcherKeys(), lifecycleKeys(), stallKeys(), written)
)

// Keys returns every label and annotation of this release, the opt-in first. The caller owns the
// slice.
func Keys() []Key { return slices.Clone(keys) }

func workloadKeys() []Key {
	return []Key{
		{Name: LabelFramework, Kind: KeyKindLabel,
			Values: "the name of a framework", Default: "required",
			Description: "Makes the workload a gang of this framework."},
		{Name: LabelGang, Kind: KeyKindLabel,
			Values: "a DNS-1035 name of at most 63 characters", Default: "the name of the workload",
			Description: "The name of the gang, and of the headless Service with the addresses of its ranks."},
		{Name: LabelRole, Kind: KeyKindLabel,
			Values:      "a role of the framework; any DNS label if the framework permits any role",
			Default:     "the default role of the framework",
			Description: "The role of this workload in the gang."},
		{Name: LabelInject, Kind: KeyKindLabel,
			Values: "`true`, `false`", Default: "`true`",
			Description: "`false` turns Rollcall off for this object."},
		{Name: AnnotationRoles, Kind: KeyKindAnnotation,
			Values: "`role=pods`, separated by commas, such as `launcher=1,worker=4`", Default: "only this workload",
			Description: "The size of every role in a gang with more than one workload, the same on each workload. " +
				"Each workload is named after the gang and its role: `train-launcher`, `train-worker`."},
		{Name: AnnotationContainers, Kind: KeyKindAnnotation,
			Values: "container names, separated by commas",
			Default: "`kubectl.kubernetes.io/default-container` of the pod template, else the first container " +
				"that runs a launcher such as torchrun, else the first with accelerators, else the first",
			Description: "The training containers. Init containers always get the environment, too."},
		{Name: AnnotationProfile, Kind: KeyKindAnnotation,
			Values: "the name of a profile of the policy", Default: "none",
			Description: "Selects a profile of the cluster's policy. Its defaults fill the fields that you do not set, " +
				"and its limits hold for the workload. A gang keeps its profile."},
		{Name: AnnotationCompatibility, Kind: KeyKindAnnotation,
			Values: "`" + CompatibilityKubeflow + "`", Default: "none",
			Description: "Adds the pod labels and the variables that only operators of Kubeflow set, for programs and " +
				"selectors that use these names. `rollcall migrate` sets the annotation."},
	}
}

func podKeys() []Key {
	return []Key{
		{Name: AnnotationGPUs, Kind: KeyKindAnnotation,
			Values: describeRange(1, MaxProcessesPerPod), Default: "none",
			Description: "Accelerators for each training container, as limit and request."},
		{Name: AnnotationGPUResource, Kind: KeyKindAnnotation,
			Values: "an extended resource name", Default: "`" + DefaultGPUResource + "`",
			Description: "The resource that `gpus` counts."},
		{Name: AnnotationNprocPerNode, Kind: KeyKindAnnotation,
			Values: "`auto`, `gpu`, `cpu`, or " + describeRange(1, MaxProcessesPerPod), Default: "`auto`",
			Description: "Training processes in each pod. `auto` uses the accelerator limit, else the CPU limit, else 1."},
		{Name: AnnotationPort, Kind: KeyKindAnnotation,
			Values: fmt.Sprintf("a port from %d to %d", MinPort, MaxPort), Default: "the port of the framework",
			Description: "The TCP port of the rendezvous on rank 0."},
		{Name: AnnotationPublishedRanks, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`all`, `rank0`",
			Default: "`rank0` for a gang of one Job that is not elastic and contains no name of another rank, " +
				"if the framework needs only rank 0; else `all`",
			Description: "The ranks whose DNS names the headless Service publishes. " +
				"With `rank0`, Kubernetes updates the addresses a few times only, however large the gang is. " +
				"A Service that publishes all ranks stays so."},
		{Name: AnnotationShmSize, Kind: KeyKindAnnotation,
			Values:      "a quantity above 0, or `none`",
			Default:     "half the memory limit; without a memory limit, the volume has no size limit",
			Description: "Size of the memory-backed /dev/shm."},
		{Name: AnnotationElastic, Kind: KeyKindAnnotation,
			Values: "`min:max`, numbers of pods", Default: "off",
			Description: "The gang keeps training with any number of pods from min to max. Only for elastic frameworks."},
		{Name: AnnotationScheduler, Kind: KeyKindAnnotation,
			Values:  "`none`, `native`, `coscheduling`, `volcano`, `kai`, `yunikorn`",
			Default: "`none`, unless an administrator chose another scheduler for all gangs",
			Description: "Places all ranks of the gang or none, by a PodGroup of the scheduler. " +
				"Rollcall creates the PodGroup when all workloads of the gang exist. " +
				"With `yunikorn`, a gang is an application with the task groups in the pod template instead."},
		{Name: AnnotationQueue, Kind: KeyKindAnnotation,
			Values:  "the name of a LocalQueue of Kueue in the namespace",
			Default: "no queue",
			Description: "The queue of a gang of several workloads, the same on each workload. Kueue admits them as one. " +
				"A gang of one Job has the label `kueue.x-k8s.io/queue-name` instead."},
		{Name: AnnotationTopology, Kind: KeyKindAnnotation,
			Values:  "a label of nodes, such as `example.com/rack`; with `:preferred` it is not required",
			Default: "any nodes",
			Description: "Places all ranks on nodes with the same value of the label, the same on each workload. " +
				"Requires a scheduler with topology, or the label `kueue.x-k8s.io/queue-name` on a gang of one Job."},
		{Name: AnnotationSegment, Kind: KeyKindAnnotation,
			Values:  "a label of nodes and a number of ranks, such as `example.com/rack/16`",
			Default: "no segments",
			Description: "Places each group of that many consecutive ranks on nodes with the same value of the label. " +
				"Only for a gang of one Job with the label `kueue.x-k8s.io/queue-name`."},
	}
}

func launcherKeys() []Key {
	return []Key{
		{Name: AnnotationMPIImplementation, Kind: KeyKindAnnotation,
			Values: "`openmpi`, `intel`, `mpich`", Default: "`openmpi`",
			Description: "The MPI implementation of the image, which determines the format of /etc/mpi/hostfile. " +
				"The variables of all implementations are set."},
		{Name: AnnotationSlotsPerWorker, Kind: KeyKindAnnotation,
			Values: describeRange(1, MaxProcessesPerPod),
			Default: "`nproc-per-node` if it is a number, else 1; " +
				"for a launcher without workers, the result of `nproc-per-node: auto`",
			Description: "Processes that the launcher starts on each host."},
		{Name: AnnotationRunLauncherAsWorker, Kind: KeyKindAnnotation,
			Values: "`true`, `false`", Default: "`false`; `true` for a launcher without workers",
			Description: "Runs training processes in the launcher's own pod, as the first host."},
		{Name: AnnotationLaunch, Kind: KeyKindAnnotation,
			Values: "`ssh`, `agent`", Default: "`ssh`",
			Description: "How the launcher starts processes in other pods, the same on each workload. " +
				"`ssh` requires ssh and sshd in the image. `agent` adds a program of Rollcall to the pods."},
		{Name: AnnotationRankOrder, Kind: KeyKindAnnotation,
			Values:  "up to 8 labels of nodes, separated by commas, from the largest part of the network to the smallest",
			Default: "the order of the indexes of the pods",
			Description: "Orders the hosts of the launcher by these labels of their nodes and by the nodes, so that " +
				"neighbors in rank are neighbors in the network. Set it on the launcher."},
		{Name: AnnotationHostfile, Kind: KeyKindAnnotation,
			Values: "an absolute path, such as `/etc/hostfile`", Default: "no file",
			Description: "A file in the training containers with the address of each rank, one in each line, in the " +
				"order of the ranks. Only for `generic`. " +
				"An init container writes the file with the shell of the image."},
	}
}

func lifecycleKeys() []Key {
	return []Key{
		{Name: AnnotationRestartPolicy, Kind: KeyKindAnnotation, Mutable: true,
			Values:  "`gang`, `pod`, `never`",
			Default: "`gang`; `pod` for an elastic gang; `never` for a Job with `backoffLimit: 0`",
			Description: "The reaction to a failed rank: `gang` restarts all ranks together, " +
				"`pod` leaves restarts to the workload, `never` fails the gang."},
		{Name: AnnotationMaxRestarts, Kind: KeyKindAnnotation, Mutable: true,
			Values: describeRange(0, MaxRestarts),
			Default: fmt.Sprintf("the Job's `backoffLimit` unless it is %d or %d, else %d",
				defaultBackoffLimit, UnlimitedBackoffLimit, DefaultMaxRestarts),
			Description: "The maximum number of restarts before the gang fails. Ranks that fail together count once. " +
				"Disruptions do not count."},
		{Name: AnnotationMaxDisruptions, Kind: KeyKindAnnotation, Mutable: true,
			Values: describeRange(0, MaxRestarts) + ", or `" + unlimited + "`", Default: "`" + unlimited + "`",
			Description: "The maximum number of disruptions before the gang fails, such as evictions, preemptions, " +
				"drains and lost nodes. A disruption restarts the gang and uses up no restart."},
		{Name: AnnotationNonRetriableExitCodes, Kind: KeyKindAnnotation, Mutable: true,
			Values: "exit codes and ranges, separated by commas, such as `1-127`", Default: "none",
			Description: "If the first failure has one of these exit codes, the gang fails and is not restarted."},
		{Name: AnnotationSuccessPolicy, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`all`, `rank0`, or a role of the gang",
			Default: "depends on the framework: the role that determines completion; " +
				"the first pod of the role that the framework declares; else `all`",
			Description: "Which ranks must succeed for the gang to succeed."},
		{Name: AnnotationCleanPodPolicy, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`running`, `all`, `none`", Default: "`running`",
			Description: "Which pods are deleted after the gang finishes: running pods, all pods, or none."},
		{Name: AnnotationStartTimeout, Kind: KeyKindAnnotation, Mutable: true,
			Values: "a duration of at least 1s, such as `30m`", Default: "off",
			Description: "The maximum time until all ranks are ready. " +
				"After that the gang is restarted, or fails if no restart is left."},
		{Name: AnnotationScheduleTimeout, Kind: KeyKindAnnotation, Mutable: true,
			Values: "a duration of at least 1s, such as `10m`", Default: "off",
			Description: "The maximum time for which some ranks have nodes while others wait for theirs. " +
				"After that the gang gives its nodes back and starts again, which uses up no restart."},
		{Name: AnnotationRestartOnNodeLoss, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`true`, `false`", Default: "`true`",
			Description: "Whether the gang restarts as soon as Kubernetes finds that a node does not report, without waiting " +
				"for the pods of the node. With `false`, it waits until Kubernetes confirms that they have terminated."},
		{Name: AnnotationAvoidNodes, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`off`, `auto`", Default: "`off`",
			Description: "With `auto`, a gang of Jobs restarts without the node of a first failure that the hardware caused, " +
				"and without a node on which ranks failed first twice. The gang prefers " +
				"other nodes to those on which gangs of two namespaces failed first. Rollcall changes the node affinity of the " +
				"pod template."},
		{Name: AnnotationPreflight, Kind: KeyKindAnnotation, Mutable: true,
			Values: "the name of an init container", Default: "none",
			Description: fmt.Sprintf("The init container that checks the node before training. With exit code %d, the gang "+
				"restarts without the node, which uses up no restart. With %d, it fails.", PreflightNodeFailed, PreflightFatal)},
		{Name: AnnotationFailureOutput, Kind: KeyKindAnnotation, Mutable: true,
			Values: "`true`, `false`", Default: "`true`, unless an administrator turned the output off for all gangs",
			Description: "Whether the status, conditions and Events of the gang contain the last lines of the output of " +
				"the first rank that failed."},
	}
}

func stallKeys() []Key {
	return []Key{
		{Name: AnnotationProgressFile, Kind: KeyKindAnnotation,
			Values:  "an absolute path, such as `/checkpoints/latest`, which can contain `" + RankReference + "`",
			Default: "off",
			Description: "A file that the program writes while it makes progress. A rank counts as stalled if it did not " +
				"write the file for `stall-timeout`, after it wrote the file at least once since its start."},
		{Name: AnnotationProgressPattern, Kind: KeyKindAnnotation, Mutable: true,
			Values: fmt.Sprintf("a regular expression (RE2) of at most %d bytes, such as `step (?P<step>\\d+)/(?P<total>\\d+)`",
				progress.MaxPatternLength),
			Default: "off",
			Description: "Matches the lines that rank 0 prints while it makes progress. `rollcall status` shows the numbers " +
				"in the groups `step` and `total`. With the permission to read logs, which is a value of the chart, Rollcall " +
				"finds a gang that prints no such line for `stall-timeout`. A line with text in the group `stop` announces a " +
				"pause, and one with text in the group `fault` counts as a stall."},
		{Name: AnnotationStallTimeout, Kind: KeyKindAnnotation,
			Values: "a duration of at least 10s, such as `10m`", Default: "`30m`",
			Description: "The maximum time between two writes of the progress file, or between two lines that match the " +
				"pattern. It must be longer than the longest evaluation or checkpoint."},
		{Name: AnnotationStallAction, Kind: KeyKindAnnotation,
			Values: "`report`, `restart`", Default: "`report`",
			Description: "The reaction to a stalled rank: `report` shows it in the status and in an Event. `restart` restarts " +
				"the gang, which uses up a restart. With a progress file, it first prints the stacks of Python processes."},
	}
}

func writtenKeys() []Key {
	return []Key{
		{Name: LabelPhase, Kind: KeyKindLabel, Description: "The phase of the gang, for `kubectl get jobs -L`."},
		{Name: LabelSize, Kind: KeyKindLabel,
			Description: "The number of ranks of the gang; the maximum if it is elastic. Policy engines can select it."},
		{Name: LabelAccelerators, Kind: KeyKindLabel,
			Description: "The number of accelerators of all pods of the workload. " +
				"It is not set if resource claims determine the number."},
		{Name: AnnotationStatus, Kind: KeyKindAnnotation, Description: "The status of the gang as JSON."},
		{Name: AnnotationSuspendedBy, Kind: KeyKindAnnotation,
			Description: "Who suspends a workload that Rollcall suspended for a restart or after the end of its gang: " +
				"`rollcall`, or `user` after a user took over the suspension."},
		{Name: AnnotationInjected, Kind: KeyKindAnnotation,
			Description: "What admission injected, and the injector that requested it."},
	}
}

func describeRange(minimum, maximum int) string {
	return fmt.Sprintf("a whole number from %d to %d", minimum, maximum)
}

// trimKeyPrefix returns the name of a key without [Prefix].
func trimKeyPrefix(key string) string { return strings.TrimPrefix(key, Prefix) }

// IsWrittenByRollcall reports whether only Rollcall writes the key to workloads.
func IsWrittenByRollcall(name string) bool {
	return slices.ContainsFunc(written, func(k Key) bool { return k.Name == name })
}

// IsMutable reports whether a changed value of the key has an effect while the gang runs.
func IsMutable(name string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return k.Mutable && k.Name == name })
}

package failure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reasons of a failure that neither the kubelet nor the control plane gives.
const (
	// ReasonPodDeleted means that somebody deleted the pod, and no disruption condition gives a reason. The
	// rank is -1 if a StatefulSet replaced the pod before Rollcall observed the deletion.
	ReasonPodDeleted = "PodDeleted"
	// ReasonPodFailed means that the pod failed, and that neither its status nor a container gives a
	// reason.
	ReasonPodFailed = "PodFailed"
	// ReasonNodeLost means that the node of the pod does not report any more; see [findLostNode]. Earlier releases of
	// Kubernetes give the reason to pods that they delete from such a node.
	ReasonNodeLost = "NodeLost"
	// ReasonDeviceUnhealthy means that the kubelet reports an unhealthy device of a training container; see
	// [IsDeviceUnhealthy].
	ReasonDeviceUnhealthy = "DeviceUnhealthy"
	// ReasonPreflightFailed means that the preflight check of the rank exited with [gang.PreflightNodeFailed] or
	// [gang.PreflightFatal].
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonUnobserved means that the workload counts or replaced a failed pod that was deleted before
	// Rollcall observed it.
	ReasonUnobserved = "Unobserved"
	// ReasonRankLost means that the Job counts a rank as completed whose pod was deleted, so that no
	// new pod is created for the rank.
	ReasonRankLost = "RankLost"
	// ReasonMemberRecreated means that a workload of the gang was deleted and recreated.
	ReasonMemberRecreated = "MemberRecreated"
	// ReasonMemberDeleted means that a workload of the gang was deleted, and that its peers failed then.
	ReasonMemberDeleted = "MemberDeleted"
	// ReasonMemberSuspended means that somebody suspended a workload of the gang and resumed it, while the pods of
	// other workloads ran on.
	ReasonMemberSuspended = "MemberSuspended"
	// ReasonStartTimeout means that not all ranks were ready within the start timeout of the gang.
	ReasonStartTimeout = "StartTimeout"
	// ReasonScheduleTimeout means that some ranks held nodes for the schedule timeout of the gang, while others had
	// none.
	ReasonScheduleTimeout = "ScheduleTimeout"
)

// reasonOOMKilled is the reason of the kubelet for a container that exceeded its memory limit.
const reasonOOMKilled = "OOMKilled"

// disruptionTargetReasons are the reasons of the condition DisruptionTarget (KEP-3329).
var disruptionTargetReasons = []string{
	"EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "DeletionByDeviceTaintManager",
	"DeletionByPodGC", "TerminationByKubelet",
}

// evictionReasons are the reasons of pods that the kubelet or the control plane evicted: the pod
// reason Evicted, and those of the condition.
var evictionReasons = append([]string{"Evicted"}, disruptionTargetReasons...)

// disruptionReasons are the reasons of failures that the infrastructure or a user caused, and not the
// program. A failed pod that nobody observed is one of them: Kubernetes keeps the pods of Jobs that failed by
// themselves, so somebody deleted the pod. The reasons of the kubelet are for the shutdown of its node, and
// for a pod that makes room for a critical pod. The reason Evicted is missing: without a
// condition, which has another reason, the pod exceeded its own limit of local storage (kubernetes
// pkg/kubelet/eviction, localStorageEviction). ResourceReservationTimeout is that of YuniKorn for a gang that held
// some of its nodes for too long (yunikorn-k8shim pkg/common/constants).
var disruptionReasons = append([]string{
	ReasonPodDeleted, ReasonRankLost, ReasonUnobserved, ReasonNodeLost, ReasonDeviceUnhealthy,
	ReasonMemberRecreated, ReasonMemberDeleted, ReasonMemberSuspended, ReasonScheduleTimeout,
	"NodeShutdown", "Terminated", "Preempting", "ResourceReservationTimeout",
}, disruptionTargetReasons...)

// exceededRequest is part of the message of the kubelet about a pod that it evicts from a node without
// enough memory or storage, if the pod used more than it requested (kubernetes pkg/kubelet/eviction,
// helpers.go). Without a limit, such a gang would be evicted and restarted indefinitely.
const exceededRequest = "has larger consumption of"

// Exit codes of containers that a signal terminated: 128 plus the number of the signal.
const (
	exitCodeSIGINT  = 128 + 2
	exitCodeSIGABRT = 128 + 6
	exitCodeSIGTERM = 128 + 15
)

// clockTolerance is the precision with which the times of two failures can be compared. Kubernetes
// keeps times to the second, the clocks of two nodes differ, and a failing program may exit later
// than the peers that lose it. An externally caused failure therefore counts as earlier by this
// duration, and a failure that may be a consequence counts as later by it.
const clockTolerance = time.Second

// deletionTolerance replaces clockTolerance for a deletion or an eviction, which the control plane decides.
// The clock of a node can be behind, so an exit can seem to precede the deletion that caused it.
const deletionTolerance = 5 * time.Second

// lostNodeTolerance replaces clockTolerance for a lost node. Kubernetes finds a node lost 50 seconds after its last
// report, and checks that each 5 seconds (--node-monitor-grace-period of the kube-controller-manager). Programs with a
// shorter timeout fail before.
const lostNodeTolerance = 55 * time.Second

// Failure is the failure of one rank, or of a gang if no rank can be named. It is part of the
// status annotation; docs/reference/status.md describes its fields for users.
type Failure struct {
	// Rank is the rank in the gang. It is -1 if no rank can be named.
	Rank int32 `json:"rank"`
	// Pod and Node are the names of the pod and of the node on which the rank ran.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// Container is the name of the container that exited. It is empty if the pod was deleted or
	// evicted.
	Container string `json:"container,omitempty"`
	// Auxiliary is true if Container is a sidecar or an init container.
	Auxiliary bool `json:"auxiliary,omitempty"`
	// ExitCode is the exit code of Container; 0 if no container exited.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Reason is the reason of the kubelet or the control plane, such as Error, OOMKilled, Evicted or
	// EvictionByEvictionAPI, or one of the constants of this package.
	Reason string `json:"reason"`
	// Disrupted is true if the pod has the condition DisruptionTarget, whatever its reason is.
	Disrupted bool `json:"disrupted,omitempty"`
	// LostPeer is true if the termination message of the container reports that it lost a peer.
	LostPeer bool `json:"lostPeer,omitempty"`
	// MaybeTerminated is true if the container may have exited because the gang was terminated: it
	// received SIGTERM, or it exited in or after the second of the decision.
	MaybeTerminated bool `json:"maybeTerminated,omitempty"`
	// StalledRanks is the number of ranks that stalled; 0 if the reason is not [ReasonStalled].
	StalledRanks int32 `json:"stalledRanks,omitempty"`
	// Position is where the program of a stalled rank was; empty if it is not known.
	Position string `json:"position,omitempty"`
	// Message is the end of the termination message or of the log, as [TruncateMessage] shortens it.
	Message string `json:"message,omitempty"`
	// Time is when the rank failed, to the second.
	Time time.Time `json:"time"`
	// DetectedTime is when torchrun detected the failure, or when a stalled rank made progress last, to the
	// millisecond. It is zero otherwise.
	DetectedTime time.Time `json:"detectedTime,omitzero"`
}

// String returns the failure as a phrase for users, which starts with the rank if it is known.
func (f Failure) String() string {
	var out strings.Builder
	if f.Rank >= 0 {
		fmt.Fprintf(&out, "rank %d (pod %s", f.Rank, f.Pod)
		if f.Node != "" {
			fmt.Fprintf(&out, " on node %s", f.Node)
		}
		out.WriteString("): ")
	}
	out.WriteString(f.Reason)
	if f.Container != "" {
		fmt.Fprintf(&out, ", container %s exited with code %d", f.Container, f.ExitCode)
	}
	if f.Message != "" {
		fmt.Fprintf(&out, ": %s", f.Message)
	}
	return out.String()
}

// WithoutOutput returns the failure without the output of the program; nil for nil. The message of a
// failure without a container is from the kubelet or the control plane, and stays.
func (f *Failure) WithoutOutput() *Failure {
	if f == nil || f.Container == "" {
		return f
	}
	out := *f
	out.Message, out.Position = "", ""
	return &out
}

// Equal reports whether two failures are the same. Either may be nil. Fields that Rollcall may learn later, such as
// LostPeer, are not compared, except for the stalled ranks: the stacks of the others disappear with their pods.
func (f *Failure) Equal(o *Failure) bool {
	if f == nil || o == nil {
		return f == o
	}
	return f.Rank == o.Rank && f.Pod == o.Pod && f.Container == o.Container && f.Reason == o.Reason &&
		f.StalledRanks == o.StalledRanks && f.Time.Equal(o.Time)
}

// IsOOMKilled reports whether a container exceeded its memory limit.
func (f *Failure) IsOOMKilled() bool { return f.Reason == reasonOOMKilled }

// IsEviction reports whether the kubelet or the control plane evicted the pod of the rank; false for nil.
func (f *Failure) IsEviction() bool {
	return f != nil && f.Container == "" && slices.Contains(evictionReasons, f.Reason)
}

// IsDisruption reports whether a failure, which may be nil, is a disruption: the infrastructure or a user
// ended the pod, and the program did not cause that. A disruption does not use up a restart. Failures that
// may be a crash are not disruptions: the exit of a container that the node did not lose, other than a preflight check,
// and a start timeout. An eviction of a pod that used more memory or storage than it requested is not either.
func (f *Failure) IsDisruption() bool {
	switch {
	case f == nil:
		return false
	case f.IsRefusal(), f.IsLostContainer():
		return true
	}
	return f.Container == "" && (f.Disrupted || slices.Contains(disruptionReasons, f.Reason)) &&
		!strings.Contains(f.Message, exceededRequest)
}

// hardwareReasons are the reasons of failures that the hardware of the node causes. A kubelet gives the last to a pod
// for which it cannot allocate a device (kubernetes pkg/kubelet/lifecycle).
var hardwareReasons = []string{ReasonNodeLost, ReasonDeviceUnhealthy, "UnexpectedAdmissionError"}

// IsHardwareFault reports whether the hardware of the node of a rank caused a failure, which may be nil.
func (f *Failure) IsHardwareFault() bool {
	return f.IsFailedPreflight() || f != nil && f.Container == "" && slices.Contains(hardwareReasons, f.Reason)
}

// MayBeHardwareFault reports whether the hardware of a node may have caused a failure, which may be nil: a container
// exited, and nothing shows that a peer, a limit, a termination or a restart of the node caused that. No exit code
// distinguishes a program with a defect from a node with one: a segmentation fault can be either.
func (f *Failure) MayBeHardwareFault() bool {
	return f != nil && f.Container != "" && !f.LostPeer && !f.MaybeTerminated && !f.IsOOMKilled() &&
		!f.IsLostContainer()
}

// EarlierOf returns the failure that is the likelier cause of the other. Either may be nil; the
// result is nil only if both are. Of two failures within about a second, an OOM kill comes first, and a
// rank that reports a lost peer comes last. An eviction or a deletion comes first within 5 seconds, and a lost node
// within 55 seconds. The order is total.
func EarlierOf(a, b *Failure) *Failure {
	switch {
	case a == nil:
		return b
	case b == nil || a.compareTo(b) <= 0:
		return a
	default:
		return b
	}
}

// compareTo orders failures by time and by the priority of their causes. The names of rank, pod and
// container complete the order, so that the first of many failures does not depend on the order in
// which they were reported.
func (f *Failure) compareTo(o *Failure) int {
	return cmp.Or(
		f.effectiveTime().Compare(o.effectiveTime()),
		cmp.Compare(f.causePriority(), o.causePriority()),
		cmp.Compare(o.StalledRanks, f.StalledRanks), // the comparison of more ranks is better
		f.effectiveDetectedTime().Compare(o.effectiveDetectedTime()),
		cmp.Compare(f.Rank, o.Rank),
		cmp.Compare(f.Pod, o.Pod),
		cmp.Compare(f.Container, o.Container),
	)
}

// effectiveTime returns the time of the failure, moved by one of the tolerances according to its cause.
func (f *Failure) effectiveTime() time.Time {
	switch {
	case f.Reason == ReasonNodeLost:
		return f.Time.Add(-lostNodeTolerance)
	case f.isExternallyCaused() && !f.IsOOMKilled():
		return f.Time.Add(-deletionTolerance)
	case f.isExternallyCaused():
		return f.Time.Add(-clockTolerance)
	case f.LostPeer || f.MaybeTerminated:
		return f.Time.Add(clockTolerance)
	}
	return f.Time
}

// effectiveDetectedTime returns DetectedTime or, if it is unknown, the end of the second in which
// the rank failed.
func (f *Failure) effectiveDetectedTime() time.Time {
	if f.DetectedTime.IsZero() {
		return f.Time.Add(time.Second)
	}
	return f.DetectedTime
}

// causePriority orders failures of the same effective time. A lower number is a likelier cause.
func (f *Failure) causePriority() int {
	switch {
	case f.isExternallyCaused():
		return 0
	case f.Rank < 0: // less useful than a known rank, unless that rank failed as a consequence
		return 4
	case f.LostPeer:
		return 6
	case f.MaybeTerminated:
		return 5
	case f.wasKilledBySignal(), f.Reason == ReasonStalled:
		return 1
	case f.hasSpecificExitCode():
		return 2
	default:
		return 3
	}
}

// isExternallyCaused reports whether the program did not cause the failure. The failure of a peer
// cannot be the cause of an external failure.
func (f *Failure) isExternallyCaused() bool {
	return f.Container == "" && f.Rank >= 0 || f.IsOOMKilled() || f.IsLostContainer()
}

// hasTerminationExitCode reports whether the container exited by a signal that requests termination.
func (f *Failure) hasTerminationExitCode() bool {
	return f.ExitCode == exitCodeSIGINT || f.ExitCode == exitCodeSIGTERM
}

// wasKilledBySignal reports whether the container exited by a signal that a lost peer does not
// cause. Termination signals and SIGABRT are excluded, because NCCL and JAX abort when they lose a
// peer.
func (f *Failure) wasKilledBySignal() bool {
	return f.ExitCode > 128 && f.ExitCode != exitCodeSIGABRT && !f.hasTerminationExitCode()
}

// hasSpecificExitCode reports whether the program chose its exit code. Python and most other
// languages exit with 1 after any unhandled error, so 1 is also the exit code of lost peers.
func (f *Failure) hasSpecificExitCode() bool { return f.ExitCode > 1 && f.ExitCode < 128 }

// IsRefusal reports whether a node refused a rank: by a preflight check, or by a kubelet that rejected the pod because
// something of the node is missing. The failure may be nil.
func (f *Failure) IsRefusal() bool {
	return f.IsFailedPreflight() || f != nil && f.Container == "" &&
		(slices.Contains(rejectionReasons, f.Reason) || strings.HasPrefix(f.Reason, rejectedForResource))
}

// rejectionReasons are reasons of a kubelet that rejects a pod for which a device or a label of its node is missing.
var rejectionReasons = []string{
	"UnexpectedAdmissionError", "NodeAffinity",
}

// rejectedForResource starts the reason of a kubelet that rejects a pod for which another resource of its node is
// missing, such as OutOfcpu (kubernetes pkg/kubelet/lifecycle, predicate.go).
const rejectedForResource = "OutOf"

// lostContainerReasons are the reasons of containers whose end nobody observed. containerd gives the first to a
// container that ran when containerd stopped and that is gone when it starts, for example because the machine
// restarted (containerd internal/cri/server, loadContainer). The kubelet gives the second to a container that the
// runtime does not know any more (kubernetes pkg/kubelet, convertToAPIContainerStatuses).
var lostContainerReasons = []string{"Unknown", "ContainerStatusUnknown"}

// lostContainerMessage is the message of a container without output.
const lostContainerMessage = "the node or its container runtime restarted, so the exit code is not that of the program"

// IsLostContainer reports whether the node lost the training container that failed. The program did not cause that.
func (f *Failure) IsLostContainer() bool {
	return f != nil && f.Container != "" && !f.Auxiliary && slices.Contains(lostContainerReasons, f.Reason)
}

package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/internal/failure"
	"rollcall.training/internal/lifecycle"
	"rollcall.training/internal/progress"
)

// Gang is the state of a gang at one moment. Its JSON is the output of rollcall status -o json and
// a stable interface; docs/reference/status.md describes it.
type Gang struct {
	// Name and Namespace identify the gang, except that all runs of a CronJob have the same name.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Framework is the value of the framework label. This build may not support it.
	Framework string `json:"framework"`
	// Phase is the phase that was last written. It is empty if none was.
	Phase lifecycle.Phase `json:"phase,omitempty"`
	// LastTransitionTime is the time at which the phase started. It is nil if it is unknown.
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
	// Restarts is the number of restarts after failures so far. MaxRestarts is their maximum. It is nil unless
	// the gang restarts as a unit.
	Restarts    int32  `json:"restarts"`
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
	// Disruptions is the number of restarts after disruptions so far, which are not part of Restarts.
	// MaxDisruptions is their maximum. It is nil if they are unlimited, and unless the gang restarts as a unit.
	Disruptions    int32  `json:"disruptions"`
	MaxDisruptions *int32 `json:"maxDisruptions,omitempty"`
	// NextRestartTime is the earliest time of the next restart. It is nil unless the phase is
	// Restarting.
	NextRestartTime *time.Time `json:"nextRestartTime,omitempty"`
	// FailedNodes contains the nodes on which ranks failed first, if the gang avoids nodes.
	FailedNodes []lifecycle.FailedNode `json:"failedNodes,omitempty"`
	// Seconds contains how long the gang did what, until LastTransitionTime.
	Seconds lifecycle.Seconds `json:"seconds,omitzero"`
	// Reason and Message describe the phase.
	Reason  gang.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// CreationTimestamp is the time at which the oldest member was created.
	CreationTimestamp time.Time `json:"creationTimestamp"`
	// Size is the number of ranks. Ready and Succeeded count the ranks that are ready, or whose
	// containers exited with code 0.
	Size      int32 `json:"size"`
	Ready     int32 `json:"ready"`
	Succeeded int32 `json:"succeeded"`
	// FirstFailure is the cause of the last restart, or of the end of the gang. If none was
	// written, it is the earliest failure among the pods.
	FirstFailure *failure.Failure `json:"firstFailure,omitempty"`
	// Members are the workloads in the order of their ranks, including missing workloads.
	Members []Member `json:"members"`
	// Ranks are all ranks in ascending order. Lists of gangs do not have them.
	Ranks []Rank `json:"ranks,omitempty"`
	// Progress is what the end of the log of rank 0 shows. It is nil without a pattern, and if no line matches.
	Progress *progress.Progress `json:"progress,omitempty"`
	// LogTail is the end of the log of a rank for a live view; nil unless it was read.
	LogTail *LogTail `json:"-"`
	// Events are the latest Events of the members. The latest is the last.
	Events []Event `json:"events,omitempty"`
	// Warnings report what could not be read, and other gangs and workloads of the same name.
	Warnings []string `json:"warnings,omitempty"`

	// isQueued is true if a queue suspends and resumes the gang.
	isQueued bool
	// state is the state that was last written.
	state lifecycle.State
	// minReady is the number of ranks that must be ready for the gang to run.
	minReady int32
}

// TrainingContainers returns the names of the containers in which a rank trains; nil if the workload of the rank is
// missing.
func (g Gang) TrainingContainers(rank Rank) []string {
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.Name == rank.Member })
	if i < 0 {
		return nil
	}
	return g.Members[i].Containers
}

// Member is one workload of a gang.
type Member struct {
	// Kind is empty for a missing workload, because a gang declares only names.
	Kind gang.Kind `json:"kind,omitempty"`
	Name string    `json:"name"`
	Role string    `json:"role,omitempty"`
	// Offset is the rank of the first pod.
	Offset int32 `json:"offset"`
	// Size is the number of ranks. Ready and Succeeded count ranks as in [Gang].
	Size      int32 `json:"size"`
	Ready     int32 `json:"ready"`
	Succeeded int32 `json:"succeeded"`
	// Missing is true for a workload that another member declares and that does not exist, unless it completed before
	// it was deleted. Then Completed is true.
	Missing   bool `json:"missing,omitempty"`
	Completed bool `json:"completed,omitempty"`
	// Suspended is true if a Job is suspended, or if a StatefulSet is scaled to 0.
	Suspended bool `json:"suspended,omitempty"`
	// Containers are the names of the training containers.
	Containers []string `json:"containers,omitempty"`

	// Workload is the workload. It is nil if it does not exist.
	Workload *gang.Workload `json:"-"`

	uid string
	// pattern matches the progress of rank 0; nil if the workload has none.
	pattern *progress.Pattern
}

// Rank is one rank of a gang, and its pod.
type Rank struct {
	Rank  int32               `json:"rank"`
	State lifecycle.RankState `json:"state"`
	// Member is the name of the workload.
	Member string `json:"member"`
	Role   string `json:"role,omitempty"`
	// Pod is the name of the newest pod of the rank. It is empty if the rank has no pod.
	Pod string `json:"pod,omitempty"`
	// Node is the name of the pod's node. It is empty before the pod is scheduled.
	Node string `json:"node,omitempty"`
	// Reason explains the state of a rank that is pending, failed or terminating.
	Reason string `json:"reason,omitempty"`
	// ContainerRestarts is the number of restarts of containers within the pod.
	ContainerRestarts int32 `json:"containerRestarts,omitempty"`

	// Object is the pod. It is nil if the rank has no pod.
	Object *corev1.Pod `json:"-"`
}

// Event is an Event of a member, in the form that both API groups for Events have in common.
type Event struct {
	// Time is the time of the latest occurrence.
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	// Object is the kind and name of the member, such as Job/train.
	Object  string `json:"object"`
	Message string `json:"message"`
	// Count is the number of occurrences. 0 means 1, because events.k8s.io/v1 has no count.
	Count int32 `json:"count,omitempty"`
}

// rankStates are all states in the order of the legend.
var rankStates = []lifecycle.RankState{
	lifecycle.RankReady, lifecycle.RankPending, lifecycle.RankFailed,
	lifecycle.RankSucceeded, lifecycle.RankTerminating, lifecycle.RankMissing,
}

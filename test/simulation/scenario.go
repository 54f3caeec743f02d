package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// gangName is the name of the gang of all scenarios.
const gangName = "train"

// shape is the kind of the workloads of a gang.
type shape string

const (
	oneJob         shape = "one Job"
	queuedJob      shape = "one Job in a queue"
	oneStatefulSet shape = "one StatefulSet"
	masterJobs     shape = "two Jobs, of which the master decides"
	equalJobs      shape = "two Jobs, both of which decide"
	launcher       shape = "a Job and a StatefulSet"
)

var shapes = []shape{oneJob, oneJob, queuedJob, oneStatefulSet, masterJobs, masterJobs, equalJobs, launcher}

// Scenario is everything that determines a run: the seed of all delays, the gang, and what happens to it.
type Scenario struct {
	Seed          uint64
	Shape         shape
	Ranks         int32
	MaxRestarts   int32
	RestartPolicy string
	// PodRestartPolicy is the restartPolicy of the pods of Jobs. WithoutRules is true for Jobs without a backoffLimit of
	// the user, whose failed containers do not restart in their pods.
	PodRestartPolicy string
	WithoutRules     bool
	Behavior         behavior
	NonRetriable     string
	StartTimeout     time.Duration
	ScheduleTimeout  time.Duration
	// MaxDisruptions and CleanPodPolicy are annotations; empty for the defaults.
	MaxDisruptions, CleanPodPolicy string
	TTL                            time.Duration
	// ActiveDeadline is the activeDeadlineSeconds of the last member if it is a Job; 0 for none.
	ActiveDeadline time.Duration
	// WaitsForLostNodes is true for a gang that does not restart before the pods of a lost node have terminated.
	WaitsForLostNodes bool
	// AvoidsNodes is true for a gang that avoids nodes on which ranks failed.
	AvoidsNodes bool
	// Elastic contains the bounds of a gang of one StatefulSet, such as "1:4"; empty for a fixed size.
	Elastic string
	// IgnoresDisruptions is true for Jobs whose podFailurePolicy ignores disruptions.
	IgnoresDisruptions bool
	// ReplacesOnDelete is true for StatefulSets with the update strategy OnDelete.
	ReplacesOnDelete bool
	// SucceededCount is the number of ranks with which one Job completes by its successPolicy; 0 for all ranks.
	SucceededCount int32
	// NodeSkews are by how much the clocks of the nodes are ahead, and ManagerSkew that of every second manager.
	NodeSkews   []time.Duration
	ManagerSkew time.Duration
	Incidents   []Incident
	// ObservesDrains is true if a manager that is never late observes all disruptions, so that no drained rank may
	// complete a Job.
	ObservesDrains bool
	// Calm contains streams without long delays, actors such as "rollcall-0" without a late stream, and "faults". "*"
	// stands for all streams.
	Calm []string
	// Late are streams that stop for some time.
	Late []lateStream
}

// lateStream is a stream whose events between two times arrive at the end of that time.
type lateStream struct {
	Stream   string
	From, To time.Duration
}

// incidentKind is something that users, nodes or queues do.
type incidentKind string

const (
	rankExits      incidentKind = "rank exits"
	rankStalls     incidentKind = "rank stalls, and its peers wait"
	rankSucceeds   incidentKind = "rank succeeds"
	podEvicted     incidentKind = "pods are evicted"
	podDeleted     incidentKind = "pod is deleted"
	nodeDrained    incidentKind = "node is drained"
	nodeLost       incidentKind = "node is lost"
	nodeReturns    incidentKind = "node returns"
	nodeRemoved    incidentKind = "node is removed"
	userSuspends   incidentKind = "user suspends a member"
	userResumes    incidentKind = "user resumes all members"
	memberResumed  incidentKind = "user resumes one member"
	queuePreempts  incidentKind = "queue preempts the Job"
	queueAdmits    incidentKind = "queue admits the Job"
	memberDeleted  incidentKind = "member is deleted"
	memberCreated  incidentKind = "deleted members are created"
	setResized     incidentKind = "StatefulSet is scaled"
	setUpdated     incidentKind = "user changes the template of the StatefulSet" // with the value 1, back to the first one
	strangerComes  incidentKind = "stranger with the name of a member"
	singleJobComes incidentKind = "single Job with the label of the gang"
	managerCrashes incidentKind = "manager crashes"
	crashInPass    incidentKind = "manager crashes between two requests"
	managerStarts  incidentKind = "manager starts"
	// controllersRestart is a restart of kube-controller-manager.
	controllersRestart incidentKind = "kube-controller-manager restarts"
	webhookDown        incidentKind = "webhook is down"
	webhookUp          incidentKind = "webhook is up"
	writesDenied       incidentKind = "a policy denies writes"
	memberDenied       incidentKind = "a policy denies changes of a member"
	writesAllowed      incidentKind = "writes are permitted"
	podRemoved         incidentKind = "finished pod is removed"
	podTerminated      incidentKind = "kubelet terminates a pod"
	podHeld            incidentKind = "stranger adds a finalizer to the pod of a rank"
	podsReleased       incidentKind = "stranger removes its finalizers"
	podForced          incidentKind = "pod is deleted without a grace period"
	resizesDenied      incidentKind = "a policy denies more replicas"
	resizesAllowed     incidentKind = "more replicas are permitted"
	nodeRestarts       incidentKind = "node restarts, and loses its containers"
	nodeBreaks         incidentKind = "node fails all programs"
	nodeRepaired       incidentKind = "node is repaired"
	nodesFull          incidentKind = "nodes have room for some ranks only"
	nodesFree          incidentKind = "nodes have room for all ranks"
	deviceFails        incidentKind = "device of a rank is unhealthy"
	deviceRecovers     incidentKind = "device of a rank is healthy"
)

// Incident is one thing that happens at a time. Target selects a rank, a node, a member or a kind; Value is
// an exit code, a number of ranks, a size, the seconds for which a node is off, or those from an exit to the condition.
type Incident struct {
	At     time.Duration
	Kind   incidentKind
	Target int
	Value  int
}

func (i Incident) String() string {
	return fmt.Sprintf("%-8s %s (%d, %d)", i.At, i.Kind, i.Target, i.Value)
}

// String returns the scenario as a table.
func (s Scenario) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: %s, %d ranks, max-restarts %d, restart-policy %q, pods restart %s, without rules: %t\n",
		s.Seed, s.Shape, s.Ranks, s.MaxRestarts, s.RestartPolicy, s.PodRestartPolicy, s.WithoutRules)
	fmt.Fprintf(&out, "programs: exit code %d %s after SIGTERM, abort without peers: %t, peer timeout %s, "+
		"fail when run again: %t, after their master: %t\n",
		s.Behavior.SIGTERMExitCode, s.Behavior.SIGTERMDelay, s.Behavior.AbortsWithoutPeers, s.Behavior.PeerTimeout,
		s.Behavior.FailsWhenRunAgain, s.Behavior.AbortsAfterMaster)
	fmt.Fprintf(&out, "max-disruptions %q, clean-pod-policy %q, schedule timeout %s\n",
		s.MaxDisruptions, s.CleanPodPolicy, s.ScheduleTimeout)
	fmt.Fprintf(&out, "non-retriable %q, start timeout %s, time to live %s, active deadline %s, elastic %q, "+
		"waits for lost nodes: %t, avoids nodes: %t, ignores disruptions: %t, succeeded count %d, on delete: %t, "+
		"observes drains: %t\n",
		s.NonRetriable, s.StartTimeout, s.TTL, s.ActiveDeadline, s.Elastic, s.WaitsForLostNodes, s.AvoidsNodes,
		s.IgnoresDisruptions, s.SucceededCount, s.ReplacesOnDelete, s.ObservesDrains)
	fmt.Fprintf(&out, "clocks ahead: nodes %v, manager %s; calm: %v; late: %v\n",
		s.NodeSkews, s.ManagerSkew, s.Calm, s.Late)
	for _, i := range s.Incidents {
		fmt.Fprintf(&out, "  %s\n", i)
	}
	return out.String()
}

// memberSpec is a workload of the gang of a scenario.
type memberSpec struct {
	name          string
	role          string
	size          int32
	isStatefulSet bool
	// decides is true if the gang succeeds only after this member.
	decides bool
}

// members returns the workloads of the gang.
func (s Scenario) members() []memberSpec {
	switch s.Shape {
	case oneStatefulSet:
		return []memberSpec{{name: gangName, size: s.Ranks, isStatefulSet: true, decides: true}}
	case masterJobs:
		return []memberSpec{
			{name: gangName + "-master", role: "master", size: 1, decides: true},
			{name: gangName + "-worker", role: "worker", size: s.Ranks - 1},
		}
	case equalJobs:
		return []memberSpec{
			{name: gangName + "-master", role: "master", size: 1, decides: true},
			{name: gangName + "-worker", role: "worker", size: s.Ranks - 1, decides: true},
		}
	case launcher:
		return []memberSpec{
			{name: gangName + "-launcher", role: "launcher", size: 1, decides: true},
			{name: gangName + "-worker", role: "worker", size: s.Ranks - 1, isStatefulSet: true},
		}
	default:
		return []memberSpec{{name: gangName, size: s.Ranks, decides: true}}
	}
}

// hasStatefulSet reports whether a member of the gang is a StatefulSet.
func (s Scenario) hasStatefulSet() bool { return s.Shape == oneStatefulSet || s.Shape == launcher }

// changesLeader reports whether a manager crashes or a second one starts.
func (s Scenario) changesLeader() bool {
	return slices.ContainsFunc(s.Incidents, func(i Incident) bool {
		return i.Kind == managerCrashes || i.Kind == crashInPass || i.Kind == managerStarts
	})
}

// rankOf returns the member and the index of a rank.
func (s Scenario) rankOf(rank int) (workload string, index int32) {
	members := s.members()
	left := int32(rank) % s.Ranks
	for _, m := range members {
		if left < m.size {
			return m.name, left
		}
		left -= m.size
	}
	return members[0].name, 0
}

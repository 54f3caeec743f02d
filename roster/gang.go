package roster

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
)

// Gang is how a gang stands at one moment. It is what -o json prints.
type Gang struct {
	// Name and Namespace name it. The runs of a CronJob bear the same name.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Framework is the value of the label, whether this build knows it or not.
	Framework string `json:"framework"`
	// Phase is the phase that was last written; empty when none was.
	Phase gang.Phase `json:"phase,omitempty"`
	// Since is when the phase was entered; nil when nothing says so.
	Since *time.Time `json:"since,omitempty"`
	// Attempt is the number of restarts so far, and MaxRestarts the most that there will
	// be. MaxRestarts is nil for a gang that is not restarted as one.
	Attempt     int32  `json:"attempt"`
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
	// NotBefore is when a gang that restarts may begin anew; nil for all others.
	NotBefore *time.Time `json:"notBefore,omitempty"`
	// Reason and Message are the last word about the gang.
	Reason  gang.Reason `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Created is the age of its oldest member.
	Created time.Time `json:"created"`
	// Size is the number of ranks; Ready and Done are how many are ready, or ended well.
	Size  int32 `json:"size"`
	Ready int32 `json:"ready"`
	Done  int32 `json:"done"`
	// Cause is why the gang restarted last, or failed. Where nothing was written about
	// it, it is the first fall that is seen among the pods.
	Cause *gang.Fall `json:"cause,omitempty"`
	// Members are its workloads in the order of their ranks, missing ones included.
	Members []Member `json:"members"`
	// Ranks are all ranks in their order. They are read for one gang, not for a list.
	Ranks []Rank `json:"ranks,omitempty"`
	// Events are the latest Events of the members, the newest last.
	Events []Event `json:"events,omitempty"`
	// Notes say what could not be read, and what else there is of this name.
	Notes []string `json:"notes,omitempty"`
}

// Member is one workload of a gang.
type Member struct {
	Kind gang.Kind `json:"kind,omitempty"`
	Name string    `json:"name"`
	Role string    `json:"role,omitempty"`
	// Offset is the rank of its first pod, Size its number of ranks.
	Offset int32 `json:"offset"`
	Size   int32 `json:"size"`
	Ready  int32 `json:"ready"`
	Done   int32 `json:"done"`
	// Missing is true for a workload that should be there and is not.
	Missing bool `json:"missing,omitempty"`
	// Suspended is true when the user or a queue holds it back.
	Suspended bool `json:"suspended,omitempty"`
	// Containers are those that train.
	Containers []string `json:"containers,omitempty"`

	uid string
}

// Rank is one rank.
type Rank struct {
	Rank  int32 `json:"rank"`
	State State `json:"state"`
	// Member is the name of its workload.
	Member string `json:"member"`
	Role   string `json:"role,omitempty"`
	Pod    string `json:"pod,omitempty"`
	Node   string `json:"node,omitempty"`
	// Reason says why it is not ready; empty for a rank that is ready or done.
	Reason string `json:"reason,omitempty"`
	// Restarts counts how often its containers were started anew within the pod.
	Restarts int32 `json:"restarts,omitempty"`

	// Object is the pod; nil when there is none.
	Object *corev1.Pod `json:"-"`
}

// Event is an Event of a member.
type Event struct {
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Message string    `json:"message"`
	Count   int32     `json:"count,omitempty"`
}

// State is what a rank does.
type State string

// The states of a rank.
const (
	// Ready: its pod is ready.
	Ready State = "ready"
	// Waiting: its pod waits for a node, an image or a probe, or starts.
	Waiting State = "waiting"
	// Failed: its pod or one of its containers failed.
	Failed State = "failed"
	// Done: all of its containers ended well.
	Done State = "done"
	// Stopping: its pod is being deleted.
	Stopping State = "stopping"
	// Absent: it has no pod.
	Absent State = "no pod"
)

// states are all states, in the order in which they are counted and explained.
var states = []State{Ready, Waiting, Failed, Done, Stopping, Absent}

package gang

// Reason is a stable code for why something happened to a gang. The same codes
// appear in Events, metrics, logs and on the command line.
type Reason string

// Reasons of an admission.
const (
	// ReasonInjected: the workload was changed.
	ReasonInjected Reason = "Injected"
	// ReasonUnchanged: everything was there already.
	ReasonUnchanged Reason = "Unchanged"
	// ReasonOptedOut: the label inject is "false".
	ReasonOptedOut Reason = "OptedOut"
	// ReasonNotLabelled: the workload is not ours.
	ReasonNotLabelled Reason = "NotLabelled"
	// ReasonInvalid: the workload was denied.
	ReasonInvalid Reason = "Invalid"
	// ReasonTooLate: a Job that exists already was labelled; its template cannot
	// change any more.
	ReasonTooLate Reason = "TooLate"
	// ReasonNumbered: a Job that its queue lets go got the number of its attempt.
	ReasonNumbered Reason = "Numbered"
	// ReasonHeld: the user suspended a Job that Rollcall had suspended before, or its queue let
	// one go that Rollcall has stopped.
	ReasonHeld Reason = "Held"
	// ReasonInternal: a fault of Rollcall's own.
	ReasonInternal Reason = "Internal"
	// ReasonUndecodable: the request held no object that could be read.
	ReasonUndecodable Reason = "Undecodable"
)

// Reasons of a gang's life.
const (
	// ReasonServiceCreated: the headless Service was made.
	ReasonServiceCreated Reason = "ServiceCreated"
	// ReasonServiceConflict: a Service of that name exists and cannot serve.
	ReasonServiceConflict Reason = "ServiceConflict"
	// ReasonKeyPairCreated: the Secret with the gang's key pair was made.
	ReasonKeyPairCreated Reason = "KeyPairCreated"
	// ReasonNotInjected: the workload carries the label but passed admission
	// without Rollcall.
	ReasonNotInjected Reason = "NotInjected"
	// ReasonMembersMissing: the gang waits for workloads that are not there.
	ReasonMembersMissing Reason = "MembersMissing"
	// ReasonMembersDisagree: the workloads of the gang contradict each other.
	ReasonMembersDisagree Reason = "MembersDisagree"
	// ReasonRanksOnOneHost: the gang is done, and its launcher used few of its hosts, or
	// none but its own.
	ReasonRanksOnOneHost Reason = "RanksOnOneHost"
	// ReasonPodStuck: the gang waits for a pod that was told to go, on a node that does not
	// answer.
	ReasonPodStuck Reason = "PodStuck"
	// ReasonGangPending: not all ranks are ready.
	ReasonGangPending Reason = "GangPending"
	// ReasonGangStarting: some ranks are ready.
	ReasonGangStarting Reason = "GangStarting"
	// ReasonGangRestarting: the gang fell, and begins anew.
	ReasonGangRestarting Reason = "GangRestarting"
	// ReasonGangSuspended: the gang is held back.
	ReasonGangSuspended Reason = "GangSuspended"
	// ReasonGangRunning: all ranks are ready.
	ReasonGangRunning Reason = "GangRunning"
	// ReasonGangSucceeded: the gang is done.
	ReasonGangSucceeded Reason = "GangSucceeded"
	// ReasonGangFailed: the gang failed for good.
	ReasonGangFailed Reason = "GangFailed"
)

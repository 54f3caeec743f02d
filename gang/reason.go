package gang

// Reason is a stable code for an admission, a phase or a problem of a gang. The same codes are in
// Events, metrics, logs and the output of the command line.
type Reason string

// Reasons of an admission.
const (
	// ReasonInjected means that admission changed the workload.
	ReasonInjected Reason = "Injected"
	// ReasonUnchanged means that the workload was already injected.
	ReasonUnchanged Reason = "Unchanged"
	// ReasonOptedOut means that the label inject is "false".
	ReasonOptedOut Reason = "OptedOut"
	// ReasonNotLabeled means that the workload does not have the framework label.
	ReasonNotLabeled Reason = "NotLabeled"
	// ReasonInvalid means that admission denied the workload.
	ReasonInvalid Reason = "Invalid"
	// ReasonImmutableTemplate means that the label was added to an existing Job, whose pod template is
	// immutable.
	ReasonImmutableTemplate Reason = "ImmutableTemplate"
	// ReasonAttemptLabelSet means that a Job got the label of its attempt when its queue or its user resumed it.
	ReasonAttemptLabelSet Reason = "AttemptLabelSet"
	// ReasonKeptSuspended means that a Job stays suspended: the user suspended a Job that Rollcall had
	// suspended before, or a queue tried to resume a Job that Rollcall has suspended.
	ReasonKeptSuspended Reason = "KeptSuspended"
	// ReasonInternalError means a bug in Rollcall.
	ReasonInternalError Reason = "InternalError"
	// ReasonDecodeError means that the object of the request could not be decoded.
	ReasonDecodeError Reason = "DecodeError"
)

// Reasons of a gang.
const (
	// ReasonServiceConflict means that the existing Service of that name does not publish the gang's
	// pods.
	ReasonServiceConflict Reason = "ServiceConflict"
	// ReasonServiceShared means that several gangs share the Service and have different ports. The
	// Service keeps its port.
	ReasonServiceShared Reason = "ServiceShared"
	// ReasonKeyPairConflict means that somebody else created the Secret with the name of the gang's key
	// pair.
	ReasonKeyPairConflict Reason = "KeyPairConflict"
	// ReasonPodGroupMissing means that the gang has no PodGroup: the API server does not serve PodGroups, or
	// somebody else created the PodGroup of that name.
	ReasonPodGroupMissing Reason = "PodGroupMissing"
	// ReasonWaitingForQueue means that all workloads of the gang wait in a queue as one.
	ReasonWaitingForQueue Reason = "WaitingForQueue"
	// ReasonQueueUnavailable means that the queue cannot admit the gang: the cluster does not have Kueue, Rollcall has no
	// permission, or the admission has a part that Rollcall does not support.
	ReasonQueueUnavailable Reason = "QueueUnavailable"
	// ReasonRanksUnschedulable means that ranks have waited for their nodes for a minute.
	ReasonRanksUnschedulable Reason = "RanksUnschedulable"
	// ReasonNodeSuspected means that ranks of gangs in several namespaces failed first on a node.
	ReasonNodeSuspected Reason = "NodeSuspected"
	// ReasonNotInjected means that the workload has the framework label, but was admitted without
	// Rollcall.
	ReasonNotInjected Reason = "NotInjected"
	// ReasonTooLarge means that Rollcall does not follow the workload, or does not use the Service, because it is too
	// large.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonMembersMissing means that members of the gang do not exist.
	ReasonMembersMissing Reason = "MembersMissing"
	// ReasonMemberConflict means that settings of the gang's workloads do not match, or that a workload
	// has the name of the gang but no place in it.
	ReasonMemberConflict Reason = "MemberConflict"
	// ReasonMemberOfEarlierRun means that a workload finished before other workloads of the gang were
	// created, so that it is not a member of the current run.
	ReasonMemberOfEarlierRun Reason = "MemberOfEarlierRun"
	// ReasonRequestRejected means that a quota, a policy or a webhook rejected a request of Rollcall.
	ReasonRequestRejected Reason = "RequestRejected"
	// ReasonWorkersNotReached means that the gang succeeded, but its launcher reached no other host or
	// only some of the hosts.
	ReasonWorkersNotReached Reason = "WorkersNotReached"
	// ReasonResizeRejected means that admission rejects the new size of a scaled StatefulSet: the size is not
	// valid for a gang, or another webhook, a policy or a quota denies it.
	ReasonResizeRejected Reason = "ResizeRejected"
	// ReasonPolicyViolated means that the gang violates the policy of the cluster.
	ReasonPolicyViolated Reason = "PolicyViolated"
	// ReasonPodStuckTerminating means that a pod of the gang does not finish terminating because its
	// node does not respond, or because a finalizer of another program keeps it.
	ReasonPodStuckTerminating Reason = "PodStuckTerminating"
	// ReasonStalled means that ranks make no progress. It is also the reason of the failure of such a rank.
	ReasonStalled Reason = "Stalled"
	// ReasonGangPending means that not all ranks are ready.
	ReasonGangPending Reason = "GangPending"
	// ReasonGangStarting means that some ranks are ready.
	ReasonGangStarting Reason = "GangStarting"
	// ReasonGangRestarting means that the gang failed and is restarted.
	ReasonGangRestarting Reason = "GangRestarting"
	// ReasonGangSuspended means that the gang is suspended.
	ReasonGangSuspended Reason = "GangSuspended"
	// ReasonGangRunning means that all ranks have been ready.
	ReasonGangRunning Reason = "GangRunning"
	// ReasonGangSucceeded means that the gang succeeded.
	ReasonGangSucceeded Reason = "GangSucceeded"
	// ReasonGangFailed means that the gang failed and is not restarted.
	ReasonGangFailed Reason = "GangFailed"
)

// Reasons of the ConfigMap with the policy of the cluster.
const (
	// ReasonPolicyLoaded means that the policy is in force.
	ReasonPolicyLoaded Reason = "PolicyLoaded"
	// ReasonPolicyRejected means that the policy has a mistake, and that the last valid policy stays in
	// force.
	ReasonPolicyRejected Reason = "PolicyRejected"
)

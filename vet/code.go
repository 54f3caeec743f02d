package vet

// Code names a check.
type Code string

// Codes of the input itself.
const (
	CodeUnreadable  Code = "Unreadable"
	CodeUndecodable Code = "Undecodable"
	CodeDuplicate   Code = "DuplicateObject"
)

// Codes of admission.
const (
	CodeDenied           Code = "Denied"
	CodeAdmissionWarning Code = "AdmissionWarning"
	CodeUnknownField     Code = "UnknownField"
	CodePodRestartPolicy Code = "PodRestartPolicy"
	CodeExtendedResource Code = "ExtendedResource"
)

// Codes of what was probably meant to be a gang.
const (
	CodeLabelMisspelt   Code = "LabelMisspelt"
	CodeLabelMisplaced  Code = "LabelMisplaced"
	CodeLabelMissing    Code = "LabelMissing"
	CodeKindUnsupported Code = "KindUnsupported"
)

// Codes of gangs with several workloads, and of what stands beside them.
const (
	CodeMembersDisagree Code = "MembersDisagree"
	CodeMembersMissing  Code = "MembersMissing"
	CodeGangNameShared  Code = "GangNameShared"
	CodeServiceConflict Code = "ServiceConflict"
)

// Codes of volumes and memory.
const (
	CodeNoCheckpointVolume Code = "NoCheckpointVolume"
	CodeClaimNotShareable  Code = "ClaimNotShareable"
	CodeSmallShm           Code = "SmallShm"
	CodeShmExceedsMemory   Code = "ShmExceedsMemory"
	CodeNoMemoryLimit      Code = "NoMemoryLimit"
	CodeFewCPUs            Code = "FewCPUs"
)

// Codes of names and networks.
const (
	CodeNameNearLimit      Code = "NameNearLimit"
	CodeSocketInterface    Code = "SocketInterface"
	CodeNodeInterface      Code = "NodeInterface"
	CodeLoopbackRendezvous Code = "LoopbackRendezvous"
	CodeHostNetworkPort    Code = "HostNetworkPort"
	CodeCustomDNS          Code = "CustomDNS"
	CodeServiceMesh        Code = "ServiceMesh"
)

// Codes of a gang's life.
const (
	CodeDeadlineBeforeStart Code = "DeadlineBeforeStart"
	CodeNoBackoff           Code = "NoBackoff"
	CodeShortTTL            Code = "ShortTTL"
)

// Codes of images and commands.
const (
	CodeFloatingImage          Code = "FloatingImage"
	CodeSameRank               Code = "SameRank"
	CodeLauncherFlags          Code = "LauncherFlags"
	CodeTorchLaunchDeprecated  Code = "TorchLaunchDeprecated"
	CodeOneProcess             Code = "OneProcess"
	CodeElasticWithoutTorchrun Code = "ElasticWithoutTorchrun"
	CodeWorkerWithoutSSHD      Code = "WorkerWithoutSSHD"
	CodeTooManyProcesses       Code = "TooManyProcesses"
	CodeHorovodWithoutHosts    Code = "HorovodWithoutHosts"
)

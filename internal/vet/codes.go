package vet

// Code identifies a check. Codes are stable: they are never renamed and never reused.
type Code string

// Codes of checks of the input itself.
const (
	CodeUnreadable      Code = "Unreadable"
	CodeUndecodable     Code = "Undecodable"
	CodeDuplicateObject Code = "DuplicateObject"
	CodeSuppression     Code = "Suppression"
)

// Codes of checks of manifests that are not complete.
const (
	CodeTemplateVariable   Code = "TemplateVariable"
	CodeInvalidPodTemplate Code = "InvalidPodTemplate"
)

// Codes of checks that predict the responses of the webhook and the API server.
const (
	CodeDenied            Code = "Denied"
	CodeAdmissionWarning  Code = "AdmissionWarning"
	CodeDefaultOverridden Code = "DefaultOverridden"
	CodeUnknownField      Code = "UnknownField"
	CodePodRestartPolicy  Code = "PodRestartPolicy"
	CodeExtendedResource  Code = "ExtendedResource"
	CodePolicyViolated    Code = "PolicyViolated"
)

// Codes of checks that find workloads without injection that were probably meant to be a gang.
const (
	CodeLabelMisspelled Code = "LabelMisspelled"
	CodeLabelMisplaced  Code = "LabelMisplaced"
	CodeLabelMissing    Code = "LabelMissing"
	CodeKindUnsupported Code = "KindUnsupported"
)

// Codes of checks that compare the workloads of a gang with each other and with other objects.
const (
	CodeMemberConflict   Code = "MemberConflict"
	CodeMembersMissing   Code = "MembersMissing"
	CodeGangNameShared   Code = "GangNameShared"
	CodeServiceConflict  Code = "ServiceConflict"
	CodeServiceNotNeeded Code = "ServiceNotNeeded"
)

// Codes of checks of volumes, memory and CPUs.
const (
	CodeNoCheckpointVolume     Code = "NoCheckpointVolume"
	CodeVolumeNotReadWriteMany Code = "VolumeNotReadWriteMany"
	CodeDefaultShmSize         Code = "DefaultShmSize"
	CodeShmExceedsMemory       Code = "ShmExceedsMemory"
	CodeShmWithoutSizeLimit    Code = "ShmWithoutSizeLimit"
	CodeNoMemoryLimit          Code = "NoMemoryLimit"
	CodeFewCPUs                Code = "FewCPUs"
)

// Codes of checks of names and networks.
const (
	CodeNameNearLimit          Code = "NameNearLimit"
	CodeSocketInterface        Code = "SocketInterface"
	CodeNodeInterface          Code = "NodeInterface"
	CodeLoopbackRendezvous     Code = "LoopbackRendezvous"
	CodeUnresolvableRendezvous Code = "UnresolvableRendezvous"
	CodeHostNetworkPort        Code = "HostNetworkPort"
	CodeCustomDNS              Code = "CustomDNS"
	CodeServiceMesh            Code = "ServiceMesh"
)

// Codes of checks of the lifecycle.
const (
	CodeDeadlineBeforeStart Code = "DeadlineBeforeStart"
	CodeBackoffLimitZero    Code = "BackoffLimitZero"
	CodeNeverRestarts       Code = "NeverRestarts"
	CodeDisruptionsFailJob  Code = "DisruptionsFailJob"
	CodeShortTTL            Code = "ShortTTL"
	CodeFailJobOnExitCode   Code = "FailJobOnExitCode"
)

// Codes of checks of images and commands.
const (
	CodeMutableImageTag        Code = "MutableImageTag"
	CodeWrongTrainingContainer Code = "WrongTrainingContainer"
	CodeTrainingContainerFound Code = "TrainingContainerFound"
	CodeSidecarNeverExits      Code = "SidecarNeverExits"
	CodeHardcodedRank          Code = "HardcodedRank"
	CodeLauncherFlagConflict   Code = "LauncherFlagConflict"
	CodeTorchLaunchDeprecated  Code = "TorchLaunchDeprecated"
	CodeSingleProcessCommand   Code = "SingleProcessCommand"
	CodeWorldSizeCountsPods    Code = "WorldSizeCountsPods"
	CodeElasticWithoutTorchrun Code = "ElasticWithoutTorchrun"
	CodeWorkerWithoutSSHD      Code = "WorkerWithoutSSHD"
	CodeSSHPortMismatch        Code = "SSHPortMismatch"
	CodeTooManyProcesses       Code = "TooManyProcesses"
	CodeLauncherWithoutHosts   Code = "LauncherWithoutHosts"
)

package gang

// The keys of KAI, which users also set without Rollcall. Its pod grouper reads the queue and the topology in the
// workload, and the queue in its pods too (KAI-Scheduler pkg/common/constants, pkg/podgrouper).
const (
	// AnnotationKAIGroup is the annotation of a pod with the name of its PodGroup.
	AnnotationKAIGroup = "pod-group-name"
	// AnnotationKAITopology is the annotation with the name of the Topology that lists the labels of nodes.
	AnnotationKAITopology = "kai.scheduler/topology"
	// LabelKAIQueue is the label with the queue.
	LabelKAIQueue = "kai.scheduler/queue"
)

// The defaults of KAI.
const (
	defaultKAIName  = "kai-scheduler"
	defaultKAIQueue = "default-queue"
)

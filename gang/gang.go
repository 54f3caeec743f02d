package gang

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultClusterDomain is the DNS domain of clusters that do not configure another domain (the
// kubelet's --cluster-domain as set by kubeadm and the large cloud providers).
const DefaultClusterDomain = "cluster.local"

// Config is the configuration of a cluster for all gangs. The zero value is a cluster of a current
// Kubernetes release with the default domain.
type Config struct {
	// ClusterDomain is the DNS domain of Services; empty means [DefaultClusterDomain].
	ClusterDomain string
	// DisableContainerRestartRules is true if the API server does not support restart rules of
	// containers (see [SupportsContainerRestartRules]). The field is negative so that the zero value
	// of Config enables the rules, as every supported release but the oldest does.
	DisableContainerRestartRules bool
	// OmitFailureOutput keeps the output of failed programs out of the status of all gangs. The field is
	// negative so that the zero value of Config is the default.
	OmitFailureOutput bool
	// Scheduler is the default of [AnnotationScheduler]; empty means [SchedulerNone].
	Scheduler Scheduler
	// SchedulerNames are the names of schedulers in the cluster.
	SchedulerNames SchedulerNames
	// QueueGangs is true if Rollcall creates one Workload of Kueue for a gang of several workloads. The label
	// [LabelQueueName] of their Jobs is then replaced by [AnnotationQueue].
	QueueGangs bool
	// DenyRankOrder is true if Rollcall does not order hosts in the cluster. The field is negative so that the zero
	// value of Config permits all annotations.
	DenyRankOrder bool
	// OmitLogs is true if Rollcall does not read logs in the cluster. The field is negative so that the zero value of
	// Config has no warning.
	OmitLogs bool
	// AgentImage is the image that contains the agent; empty means [DefaultAgentImage].
	AgentImage string
	// MountsAgent is true if pods mount the image of the agent. It has no effect before Kubernetes 1.35, and requires a
	// container runtime that supports image volumes, such as containerd 2.1.
	MountsAgent bool
	// Build identifies the program and the detected features of the API server. Two programs with
	// the same value inject a workload in the same way. Empty means unknown.
	Build string
}

// Gang is a gang as parsed from one of its workloads. Most gangs have only one workload. A Gang is a
// value: it does not share memory with the workload.
type Gang struct {
	// Name is the name of the gang, a DNS-1035 label.
	Name string
	// Namespace is the namespace of the workload.
	Namespace string
	// Framework is the framework of the gang.
	Framework Framework
	// Role is the name of the workload's role, one of Framework.Roles.
	Role string
	// Kind is the kind of the workload.
	Kind Kind
	// WorkloadName is the name of the workload and the prefix of the hostnames of its pods.
	WorkloadName string
	// Members are all workloads of the gang, including this workload, in the order of their ranks.
	Members []Member
	// Size is the number of ranks of all members, at least 1.
	Size int32
	// RankOffset is the rank of the workload's first pod.
	RankOffset int32
	// IndexLabel is the pod label with the index of a pod within the workload.
	IndexLabel string
	// RankLabel is the pod label with the rank of a pod. It is IndexLabel if RankOffset is 0, else
	// [LabelRank].
	RankLabel string
	// Elastic are the bounds of an elastic gang; nil if the size is fixed.
	Elastic *ElasticBounds
	// ServiceName is the name of the headless Service that publishes the addresses of the ranks.
	ServiceName string
	// PublishedRanks are the ranks whose addresses the Service publishes.
	PublishedRanks PublishedRanks
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// Port is the TCP port of the rendezvous.
	Port int32
	// Containers are the training containers in the order of the pod template.
	Containers []Container
	// Processes is the number of training processes of each pod.
	Processes Processes
	// GPUs are the accelerators that the user requested by annotation; nil without the annotation.
	GPUs *GPUs
	// Shm is the requested /dev/shm.
	Shm Shm
	// Launcher describes how a launcher starts processes on the hosts of the gang.
	Launcher Launcher
	// Hostfile is the path of the file with the addresses of all ranks; empty without the file.
	Hostfile string
	// RankOrder are the labels of nodes by which the launcher orders its hosts; nil for the order of the indexes.
	RankOrder []string
	// HasKubeflowNames is true if the pods also have the labels and variables that only operators of Kubeflow
	// set.
	HasKubeflowNames bool
	// ContainerRestartRules is true if the API server supports restart rules of containers.
	ContainerRestartRules bool
	// Placement determines how the pods get their nodes.
	Placement Placement
	// Queue is the queue in which all workloads of the gang wait as one; empty if the gang is in no queue, or if
	// each of its Jobs is.
	Queue string
	// RestartRules are the restart, success and clean-up policies.
	RestartRules RestartRules
	// StallRules determine how ranks without progress are found.
	StallRules StallRules
}

// Container is a training container with the properties that injectors need.
type Container struct {
	// Name is the name of the container.
	Name string
	// CPU is the CPU limit in cores, rounded up; 0 without a limit.
	CPU int64
	// Memory is the memory limit in bytes; 0 without a limit.
	Memory int64
	// Accelerators is the number of accelerators of any vendor in the limits or requests, or
	// [Gang.GPUs] if set.
	Accelerators int64
	// HasResourceClaims is true if the container has resource claims (DRA, KEP-4381), see [HasResourceClaims]. The number
	// of accelerators behind a claim is not known at admission.
	HasResourceClaims bool
	// HasTPU is true if the accelerators are TPUs.
	HasTPU bool
}

// GPUs is a number of accelerators of each training container.
type GPUs struct {
	// Resource is the name of the extended resource.
	Resource string
	// Count is at least 1.
	Count int64
}

// Shm describes the volume at /dev/shm. The zero value leaves the size to the injector.
type Shm struct {
	// Disabled is true if the user does not want a volume.
	Disabled bool
	// Size is the size that the user set; nil without a size.
	Size *resource.Quantity
}

// RankFQDN returns the DNS name of the pod with the given rank; empty if the rank does not exist.
// The name includes the cluster domain. With the usual ndots:5 a complete name costs one DNS query,
// and a short name up to three. A pod resolves its own complete name from /etc/hosts.
func (g Gang) RankFQDN(rank int32) string {
	for _, m := range g.Members {
		if rank < m.Size {
			return g.PodFQDN(m, rank)
		}
		rank -= m.Size
	}
	return ""
}

// PodFQDN returns the DNS name of a member's pod with the given index.
func (g Gang) PodFQDN(m Member, index int32) string {
	return m.WorkloadName + "-" + strconv.Itoa(int(index)) + "." + g.ServiceFQDN()
}

// ServiceFQDN returns the DNS name of the headless Service, which is the domain of the pods.
func (g Gang) ServiceFQDN() string {
	return g.ServiceName + "." + g.Namespace + ".svc." + g.ClusterDomain
}

// OwnMember returns the member of the parsed workload.
func (g Gang) OwnMember() Member {
	for _, m := range g.Members {
		if m.Role == g.Role {
			return m
		}
	}
	return Member{}
}

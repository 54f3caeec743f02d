package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultClusterDomain is the cluster domain of a cluster that does not say
// otherwise (kubelet --cluster-domain as set up by kubeadm and the large clouds).
const DefaultClusterDomain = "cluster.local"

// Config is what a cluster's operator decides for all gangs.
type Config struct {
	// ClusterDomain is the DNS suffix of Services; the zero value means
	// [DefaultClusterDomain].
	ClusterDomain string
	// NoRestartRules is true for an API server that knows no restart rules of
	// containers, one older than 1.35.
	NoRestartRules bool
	// Build tells apart what may inject the same workload in another way: the program, and
	// what it found of the API server. The zero value is not spoken of.
	Build string
}

// Gang is a gang as one of its workloads tells it; most gangs have no other. It is
// a value: it holds no pointer into the workload it was parsed from.
type Gang struct {
	// Name is the gang's name, a DNS-1035 label.
	Name string
	// Namespace is the workload's namespace.
	Namespace string
	// Framework is the framework that the gang runs.
	Framework Framework
	// Role is the part that this workload plays in it, one of Framework.Roles.
	Role string
	// Kind is the workload's kind.
	Kind Kind
	// Workload is the workload's name, from which pods get their hostnames.
	Workload string
	// Members are the gang's workloads in the order of their ranks, this one among
	// them.
	Members []Member
	// Size is the number of ranks of all members, at least 1.
	Size int32
	// Offset is the rank of this workload's first pod.
	Offset int32
	// IndexLabel is the pod label that holds a pod's index within this workload.
	IndexLabel string
	// RankLabel is the pod label that holds a pod's rank: the index's own where this
	// workload holds rank 0.
	RankLabel string
	// Elastic are the bounds of a gang whose size may change; nil for all others.
	Elastic *Elastic
	// Service is the headless Service that gives the ranks their names.
	Service string
	// Domain is the cluster's DNS domain.
	Domain string
	// Port is the TCP port of the rendezvous.
	Port int32
	// Containers are the training containers, in the template's order.
	Containers []Container
	// Processes is the number of training processes of each pod.
	Processes Processes
	// GPUs is what the user asked for by annotation; nil when nothing.
	GPUs *GPUs
	// Shm is the wish for /dev/shm.
	Shm Shm
	// Launch says how a launcher reaches the gang's hosts.
	Launch Launch
	// RestartRules is true when a container's own rules can restart it within its pod.
	RestartRules bool
	// Lifecycle is what the user wants of the gang's life.
	Lifecycle Lifecycle
}

// Container is a training container: what the injectors have to know of it.
type Container struct {
	// Name is the container's name.
	Name string
	// CPU is the CPU limit in cores, rounded up; 0 when there is none.
	CPU int64
	// Memory is the memory limit in bytes; 0 when there is none.
	Memory int64
	// Accelerators is the number of accelerators of any vendor in its limits or
	// requests, or in [Gang.GPUs] when that is set; 0 when there are none.
	Accelerators int64
	// Claims is true when the container has resource claims (DRA, KEP-4381), behind
	// which there may be accelerators that nobody can count at admission.
	Claims bool
	// TPU is true when its accelerators are TPUs, which have conventions of their own.
	TPU bool
}

// GPUs is a number of accelerators for each training container.
type GPUs struct {
	// Resource is the extended resource.
	Resource string
	// Count is at least 1.
	Count int64
}

// Shm is the wish for /dev/shm. The zero value leaves the size to the injector.
type Shm struct {
	// None is true when the user wants no volume there.
	None bool
	// Size is the user's size; nil when the user named none.
	Size *resource.Quantity
}

// Host returns the stable DNS name of the pod with the given rank, complete with
// the cluster domain: with the usual ndots:5 a complete name costs a pod one
// look-up where a short one costs up to three, and a pod finds its own in
// /etc/hosts.
func (g Gang) Host(rank int32) string {
	for _, m := range g.Members {
		if rank < m.Size {
			return g.HostOf(m, rank)
		}
		rank -= m.Size
	}
	return ""
}

// HostOf returns the DNS name of a member's pod by its index.
func (g Gang) HostOf(m Member, index int32) string {
	return fmt.Sprintf("%s-%d.%s", m.Workload, index, g.Subdomain())
}

// Subdomain is what follows a pod's hostname in its complete name.
func (g Gang) Subdomain() string {
	return fmt.Sprintf("%s.%s.svc.%s", g.Service, g.Namespace, g.Domain)
}

// Own returns this workload among the members.
func (g Gang) Own() Member {
	for _, m := range g.Members {
		if m.Role == g.Role {
			return m
		}
	}
	return Member{}
}

package gang

import (
	"slices"
	"strconv"
	"strings"
)

// CompleteHost returns the complete DNS name of a pod of the gang, as [Gang.PodFQDN], if a host is a
// name of that pod: the complete name or the part before one of its dots that pods resolve, such as
// train-0.train. A host without a dot is a name only if the search domains of the pods contain the
// gang's Service. All other hosts are returned unchanged.
//
// In a gang of one pod the name of the Service is a name of the pod, too. If rank 0 is the only pod of
// the workload, the loopback interface is a name of the pod.
func (g Gang) CompleteHost(host string, searches []string) string {
	name, isAbsolute := strings.CutSuffix(strings.ToLower(host), ".")
	pod, domain, _ := strings.Cut(name, ".")
	isBareName := domain == "" && !isAbsolute && len(searches) > 0 && slices.Contains(searches, g.ServiceFQDN())
	switch {
	case g.isOnlyPodRank0() && isLoopback(name), g.Size == 1 && g.isServiceDomain(name, isAbsolute):
		return g.RankFQDN(0)
	case !isBareName && !g.isServiceDomain(domain, isAbsolute):
		return host
	}
	for _, m := range g.Members {
		if m.hasPod(pod, g.SizeBounds(m).Max) {
			return pod + "." + g.ServiceFQDN()
		}
	}
	return host
}

// isOnlyPodRank0 reports whether the workload has only one pod, which is rank 0.
func (g Gang) isOnlyPodRank0() bool {
	own := g.OwnMember()
	return g.RankOffset == 0 && g.SizeBounds(own).Max == 1
}

// isServiceDomain reports whether pods of the namespace resolve the name to the gang's Service. They
// search in their namespace, in svc, and in the domain of the cluster (dnsPolicy ClusterFirst). They do
// not search for absolute names.
func (g Gang) isServiceDomain(name string, isAbsolute bool) bool {
	if !strings.HasPrefix(name, g.ServiceName) {
		return false
	}
	return name == g.ServiceFQDN() || !isAbsolute && slices.Contains([]string{
		g.ServiceName, g.ServiceName + "." + g.Namespace, g.ServiceName + "." + g.Namespace + ".svc",
	}, name)
}

// NamesService reports whether a host is a name of the gang's Service. It resolves to all pods.
func (g Gang) NamesService(host string) bool {
	name, isAbsolute := strings.CutSuffix(strings.ToLower(host), ".")
	return g.isServiceDomain(name, isAbsolute)
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "0.0.0.0"
}

// hasPod reports whether a hostname is that of one of the first size pods of the member, or of all pods
// by [IndexPlaceholder].
func (m Member) hasPod(hostname string, size int32) bool {
	index, ok := strings.CutPrefix(hostname, m.WorkloadName+"-")
	n, err := strconv.ParseInt(index, 10, 32)
	isNumber := err == nil && n >= 0 && n < int64(size) && strconv.FormatInt(n, 10) == index
	return ok && (isNumber || index == IndexPlaceholder)
}

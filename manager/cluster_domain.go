package manager

import (
	"os"
	"strings"

	"rollcall.training/gang"
)

// detectClusterDomain returns the DNS domain of the cluster. It reads the resolver configuration at the
// path resolvConf, in which the kubelet writes the search list
// "<namespace>.svc.<domain> svc.<domain> <domain>" for every pod. Without such a list, for example outside
// of a pod, it returns the default domain.
func detectClusterDomain(resolvConf string) string {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return gang.DefaultClusterDomain
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, search := range fields[1:] {
			if domain, ok := strings.CutPrefix(search, "svc."); ok {
				return strings.TrimSuffix(domain, ".")
			}
		}
	}
	return gang.DefaultClusterDomain
}

package main

import (
	"os"
	"strings"

	"rollcall.training/gang"
)

// clusterDomain finds the cluster's DNS domain in the manager's own resolver
// configuration: the kubelet gives every pod the search list
// "<namespace>.svc.<domain> svc.<domain> <domain>". Where there is none, as
// outside of a pod, the usual domain is assumed.
func clusterDomain(resolvConf string) string {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return gang.DefaultClusterDomain
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, s := range fields[1:] {
			if domain, ok := strings.CutPrefix(s, "svc."); ok {
				return strings.TrimSuffix(domain, ".")
			}
		}
	}
	return gang.DefaultClusterDomain
}

package main

import (
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"rollcall.training/gang"
)

// noRestartRules asks the API server whether it knows restart rules of containers. It
// is asked once, at start; after an upgrade of the cluster, managers start anew with
// their nodes.
func noRestartRules(config *rest.Config) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, fmt.Errorf("making a client: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("asking the API server for its version: %w", err)
	}
	return gang.NoRestartRules(info.GitVersion)
}

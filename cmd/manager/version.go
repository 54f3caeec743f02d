package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

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

// build names this program and what it found of the API server, by which it may inject a
// workload in another way than another manager that serves at the same time. A release's
// version would not do: images are built of what is in between, too.
func build(noRestartRules bool) (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding our own program: %w", err)
	}
	program, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading our own program: %w", err)
	}
	defer func() { _ = program.Close() }() // it was read alone
	sum := sha256.New()
	if _, err := io.Copy(sum, program); err != nil {
		return "", fmt.Errorf("reading our own program: %w", err)
	}
	fmt.Fprint(sum, noRestartRules)
	return hex.EncodeToString(sum.Sum(nil)[:4]), nil
}

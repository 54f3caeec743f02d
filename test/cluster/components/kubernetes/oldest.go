//go:build oldest

package main

import (
	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// This file is the equivalent of latest.go for the release that oldest.mod requires. To build it, run
// go build -modfile=oldest.mod -tags=oldest.

// newKubelet returns the kubelet's command.
func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand() }

// beforeKubectl does nothing, because this release sets the log verbosity itself.
func beforeKubectl() {}

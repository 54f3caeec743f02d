//go:build !oldest

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// This file uses functions that the oldest supported release does not have. See oldest.go.

// newKubelet returns the kubelet's command.
func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

// beforeKubectl sets the log verbosity. kubectl must know it before its command exists, because the search for plugins
// already logs.
func beforeKubectl() { _, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) }

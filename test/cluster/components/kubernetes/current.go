//go:build !floor

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// What the newest release has and the oldest that Rollcall supports lacks; see floor.go.

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

// beforeKubectl sets the verbosity, which must be known before the command exists: looking for plugins already logs.
func beforeKubectl() { _, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) }

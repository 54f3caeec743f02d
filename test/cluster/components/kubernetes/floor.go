//go:build floor

package main

import (
	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The same as current.go, for the release that floor.mod requires: go build -modfile=floor.mod -tags=floor

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand() }

func beforeKubectl() {}
